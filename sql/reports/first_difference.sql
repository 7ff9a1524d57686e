-- first_difference: the first op that differs by more than noise or has rows without counterpart, and where it is called.
-- grain: one row, or none where no op differs
-- parameters: the views findings_by_op, results and stacks; the macro user_frame
SELECT
    op AS "First op that differs",
    finding AS "Finding",
    (
        SELECT array_to_string(list(DISTINCT message ORDER BY message), '; ')
        FROM (SELECT unnest(messages) AS message FROM results WHERE list_contains(rows, results.row))
    ) AS "Messages",
    module AS "Module",
    regexp_replace(user_frame(frames), '\s+', ' ', 'g') AS "Line of code"
FROM findings_by_op
LEFT JOIN stacks USING (stack)
WHERE finding <> 'noise'
ORDER BY place
LIMIT 1
