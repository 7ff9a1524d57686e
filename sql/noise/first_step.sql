-- first_step: whether the parameters have to be equal to the last bit: no optimizer step came before in either run.
-- grain: one row
-- parameters: $is_first (neither run has an earlier step), $step; the table noise_makers
-- Runs of which only later steps were recorded have trained before. Then most parameters differ by what noise made of
-- them, unless both runs begin there, from one checkpoint.
SELECT
    $is_first AND ($step = 0 OR coalesce(avg(differs::INTEGER) < 0.5, false)) AS is_first_step
FROM noise_makers
WHERE is_source AND (is_parameter OR is_trained) AND is_float AND phase = 'forward'
