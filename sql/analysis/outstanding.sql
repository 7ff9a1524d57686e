-- outstanding: the suspects of a comparison, of units in which ops round differently also those that rounding may have made.
-- grain: one op
-- parameters: $comparison, $units (a list of step, rank, golden_step, golden_rank, is_rounding); the view suspects
WITH
    units AS (
        SELECT unnest(
            $units::STRUCT(step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER, is_rounding BOOLEAN)[], recursive := true
        )
    )
SELECT
    suspects.* REPLACE (row_number() OVER (PARTITION BY step, rank ORDER BY nth) AS nth),
    CASE
        WHEN evidence <> 'missing' THEN 'different'
        WHEN target_seq IS NULL THEN 'only in golden'
        ELSE 'only in target'
    END AS finding,
    golden_step,
    golden_rank
FROM suspects
JOIN units USING (step, rank)
-- where nothing rounds differently, the differences themselves show what was made
WHERE comparison = $comparison AND (is_rounding OR NOT is_of_values(evidence))
