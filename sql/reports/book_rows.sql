-- book_rows: the rows of a comparison with what a workbook says of them in words.
-- grain: one row of the comparison
-- op_row: the name of the row; reason: why its verdict is not a pass, in sentences; code: the user's line that called the op
-- parameters: the views results and stacks (of all units of the comparison)
SELECT
    results.*,
    coalesce(target_name, golden_name) AS op_row,
    if(target_name <> golden_name, golden_name, NULL) AS other_name,
    array_to_string(
        list_transform(
            messages,
            lambda message: upper(regexp_extract(message, '^(\w+: )?(.)', 2)) || regexp_extract(message, '^(\w+: )?.(.*)$', 2) || '.'
        ),
        ' '
    ) AS reason,
    regexp_replace(user_frame(stacks.frames), '\s+', ' ', 'g') AS code
FROM results
LEFT JOIN stacks USING (step, rank, stack)
