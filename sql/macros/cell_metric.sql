-- cell_metric(measurement, metric): a tensor metric's cell, or why there is none, in msprobe's words.
CREATE OR REPLACE TEMP MACRO cell_metric(measurement, metric) AS
CASE
    WHEN metric IS NOT NULL THEN metric::VARCHAR
    WHEN measurement = 'shape' THEN 'shape unmatched'
    WHEN measurement = 'nonfinite' THEN 'N/A'
    WHEN measurement = 'measured' THEN 'Nan'
    ELSE 'unsupported'
END
