-- outcome_counts: how the rows of one pair of units ended, for readers.
-- grain: one (outcome, verdict)
-- parameters: the view outcomes
SELECT
    outcome AS "Outcome",
    verdict AS "Result",
    rows AS "Rows",
    target_rows AS "Target rows",
    golden_rows AS "Golden rows",
    equal_rows AS "Equal",
    noise_rows AS "Noise",
    different_rows AS "Different"
FROM outcomes
ORDER BY rows DESC, outcome, verdict
