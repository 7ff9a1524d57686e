-- first_step: whether the parameters have to be equal to the last bit: no step of the optimizer came before that rounds.
-- grain: one row
-- parameters: $is_first (neither run has an earlier step), $is_after_equal (the last one of each is the same), $step; the
--   tables noise_makers and noise_ops
-- Runs of which only later steps were recorded have trained before. Then most parameters differ by what noise made of
-- them, unless both runs begin there, from one checkpoint. Where the step before has the same gradients in both runs, to the
-- last bit, only another optimizer makes other parameters of them.
SELECT
    ($is_first AND ($step = 0 OR coalesce(avg(differs::INTEGER) < 0.5, false)))
    OR ($is_after_equal AND EXISTS (FROM noise_ops WHERE side = 'pair' AND phase = 'backward')) AS is_first_step
FROM noise_makers
WHERE is_source AND (is_parameter OR is_trained) AND is_float AND phase = 'forward'
