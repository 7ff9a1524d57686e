-- cell_metric(measurement, metric): the cell of a tensor metric, or the reason why it is missing, in msprobe's words.
CREATE OR REPLACE TEMP MACRO cell_metric(measurement, metric) AS
CASE
    WHEN metric IS NOT NULL THEN metric::VARCHAR
    WHEN measurement = 'shape' THEN 'shape unmatched'
    WHEN measurement = 'nonfinite' THEN 'N/A'
    WHEN measurement = 'measured' THEN 'Nan'
    ELSE 'unsupported'
END
