-- counts: how much the merged unit has.
-- grain: one row
-- parameters: after whole_rows, whole_ops, first_tensors
SELECT
    (SELECT count(*) FROM whole_ops) AS ops,
    count(*) AS rows,
    count(members.digest) FILTER (WHERE kept.is_single AND kept.factor = 1) AS digests,
    count(members.data_name) AS files
FROM whole_rows AS kept
JOIN first_tensors AS members
    USING (leaf)
