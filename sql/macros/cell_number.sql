-- cell_number(number): a number as msprobe's tables spell it: Nan, and infinities with a leading blank.
CREATE OR REPLACE TEMP MACRO cell_number(number) AS
CASE
    WHEN isnan(number) THEN 'Nan'
    WHEN isinf(number) THEN if(number > 0, ' inf', ' -inf')
    ELSE number::VARCHAR
END
