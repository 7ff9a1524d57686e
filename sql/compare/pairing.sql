-- pairing: every row of both sides, once: the target's rows in order, then golden's rows without counterpart.
-- grain: one row of the comparison
SELECT
    (row_number() OVER (ORDER BY target_row IS NULL, target_row, golden_row) - 1)::INTEGER AS row,
    target_row,
    golden_row,
    matched_by
FROM (
    SELECT
        target.row AS target_row,
        pairs.golden_row,
        pairs.matched_by
    FROM target
    LEFT JOIN pairs ON pairs.target_row = target.row
    UNION ALL
    SELECT
        NULL AS target_row,
        golden.row AS golden_row,
        NULL AS matched_by
    FROM golden
    ANTI JOIN pairs ON pairs.golden_row = golden.row
)
