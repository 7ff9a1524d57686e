-- message_of(code): the text of a finding, by the letter that judge/verdicts.sql gives it: capitals are errors.
CREATE OR REPLACE MACRO message_of(code) AS
CASE code
    WHEN 'A' THEN 'error: NaN or inf in the target where the golden run has none'
    WHEN 'B' THEN 'error: NaN or inf at different places, or inf of different sign'
    WHEN 'C' THEN 'error: the norm of this output is off while the inputs agree'
    WHEN 'D' THEN 'error: too few elements of the outputs are within one thousandth while the inputs agree'
    WHEN 'E' THEN 'error: requires_grad differs'
    WHEN 'F' THEN 'error: values of different kinds are held against each other'
    WHEN 'G' THEN 'error: the types of the values differ'
    WHEN 'H' THEN 'error: the values differ'
    WHEN 'I' THEN 'error: the dtypes differ'
    WHEN 'J' THEN 'error: the shapes differ'
    WHEN 'K' THEN 'error: the digests differ'
    WHEN 'a' THEN 'warning: the norm error grows from the inputs to the outputs'
    WHEN 'b' THEN 'warning: the cosine falls from the inputs to the outputs'
    WHEN 'c' THEN 'warning: only one side has a digest'
END
