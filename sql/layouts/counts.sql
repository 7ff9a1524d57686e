-- counts: how much the merged unit has.
-- grain: one row
-- parameters: after whole_rows, whole_ops, cut_members
SELECT
    (SELECT count(*) FROM whole_ops) AS ops,
    count(*) AS rows,
    count(members.digest) FILTER (kept.shards = 1 AND kept.factor = 1) AS digests,
    count(members.data_name) AS files
FROM whole_rows AS kept
JOIN cut_members AS members
    ON members.rank = kept.first_rank AND members.row = kept.first_row
WHERE kept.reason IS NULL
