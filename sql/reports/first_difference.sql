-- first_difference: the first op that differs by more than noise or has rows without counterpart, and its call site.
-- grain: one row, or none if no op differs
-- parameters: the views findings_by_op, results and stacks; the macro user_frame
WITH
    first_op AS (
        SELECT finding, target_seq, only_golden_seq, first_row
        FROM findings_by_op
        WHERE finding <> 'noise'
        ORDER BY is_passing_on, place
        LIMIT 1
    ),
    messages AS (
        SELECT DISTINCT unnest(messages) AS message
        FROM results
        JOIN first_op ON results.target_seq = first_op.target_seq OR results.golden_seq = first_op.only_golden_seq
    )
SELECT
    coalesce(target_op, golden_op) AS "First op that differs",
    finding AS "Finding",
    (SELECT string_agg(message, '; ' ORDER BY message) FROM messages) AS "Messages",
    module AS "Module",
    regexp_replace(user_frame(frames), '\s+', ' ', 'g') AS "Line of code"
FROM first_op
JOIN results ON results.row = first_op.first_row
LEFT JOIN stacks USING (stack)
