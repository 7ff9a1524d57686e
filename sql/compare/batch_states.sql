-- batch_states: what the report of a pair says that was compared with others at once.
-- grain: one row
-- parameters: comparison_kind, paired and results of the pair; $is_rounding
-- is_whole: results have every row once, with an outcome
SELECT
    (SELECT count(*) = (SELECT count(*) FROM paired) AND count(*) = count(DISTINCT row) FROM results)
    AND (SELECT count(*) = count(outcome) AND count(*) = count(verdict) FROM results) AS is_whole,
    coalesce($is_rounding, false) AS is_rounding,
    kind,
    (SELECT count(*) FROM paired) AS rows,
    dumped,
    is_structure,
    target_complete,
    golden_complete
FROM comparison_kind
