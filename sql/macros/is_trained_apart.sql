-- is_trained_apart(target_requires_grad, golden_requires_grad, verdict): whether one run trains a tensor and the other does
--   not, which is a finding where the values agree, too. Without a verdict of error, one run recomputed it.
CREATE OR REPLACE MACRO is_trained_apart(target_requires_grad, golden_requires_grad, verdict) AS
verdict = 'error' AND coalesce(target_requires_grad <> golden_requires_grad, false)
