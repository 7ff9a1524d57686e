-- doubtful: leaves that differ although their record does not show what the op had or computed; they are set aside.
-- grain: one leaf of leaf_errors
-- parameters: $comparison; the view results, the tables leaf_errors and transfers
-- reason:
--   overwritten: the output is that of a nested call
--   not arrived: recorded before the data arrived
--   buffer: memory that the call only fills
--   argument: an output that only passes on an input
--   late digest: the digest of later contents (late_digests)
WITH
    calls AS (
        SELECT
            step,
            rank,
            seq,
            flatten(list(coalesce(given, []))) AS given,
            flatten(list(coalesce(taken, []))) AS taken,
            bool_or(overwritten) AS overwritten,
            bool_or(asynchronous) AS asynchronous
        FROM transfers
        -- objects travel as pickles, whose tensors have no roles
        WHERE op NOT LIKE '%object%'
        GROUP BY ALL
    ),
    leaves AS (
        SELECT leaf_errors.*, calls.* EXCLUDE (step, rank, seq), results.target_row
        FROM leaf_errors
        JOIN calls
            ON calls.step = leaf_errors.step AND calls.rank = leaf_errors.rank AND calls.seq = leaf_errors.target_seq
        JOIN results
            ON results.step = leaf_errors.step AND results.rank = leaf_errors.rank AND results.row = leaf_errors.row
        WHERE results.comparison = $comparison
    )
SELECT
    step,
    rank,
    row,
    CASE
        WHEN role = 'output' AND overwritten THEN 'overwritten'
        WHEN role = 'output' AND asynchronous THEN 'not arrived'
        WHEN role = 'output' AND NOT list_contains(taken, target_row) THEN 'argument'
        WHEN
            role = 'input'
            AND is_tensor
            AND NOT coalesce(is_other_tensor, false)
            AND NOT list_contains(given, target_row)
            THEN 'buffer'
    END AS reason
FROM leaves
WHERE reason IS NOT NULL
UNION
SELECT step, rank, row, 'late digest' AS reason
FROM late_digests
