-- outcomes: each row of a comparison has one outcome and verdict, and a judged pair says whether it differs.
-- grain: one violation
SELECT
    comparison,
    step,
    rank,
    row,
    outcome,
    difference,
    verdict
FROM results
WHERE
    outcome IS NULL
    OR outcome NOT IN (
        'compared', 'equal', 'skipped', 'unmatched', 'unreadable', 'unrecorded', 'inside', 'structure', 'recomputed'
    )
    OR verdict IS NULL
    OR verdict NOT IN ('pass', 'warning', 'error', 'unmatched', 'unreadable', 'skipped')
    OR difference IS NOT NULL AND (target_row IS NULL OR golden_row IS NULL)
    OR difference IS NULL
    AND target_row IS NOT NULL
    AND golden_row IS NOT NULL
    AND outcome NOT IN ('unreadable', 'unrecorded', 'skipped')
LIMIT 100
