-- plain_pair: whether a pair is compared by names and statistics alone, if names say enough.
-- grain: one row
-- parameters: comparison_kind; target_contents_rows and golden_contents_rows, the rows of both units in contents
SELECT
    usual_rule = 'same_framework'
    AND NOT cross_framework
    AND NOT other_names
    AND (SELECT count(*) = 0 FROM target_contents_rows)
    AND (SELECT count(*) = 0 FROM golden_contents_rows) AS is_plain,
    dumped
FROM comparison_kind
