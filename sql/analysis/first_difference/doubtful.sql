-- doubtful: leaves that differ although their record does not show what the op had or computed; they are set aside.
-- grain: one leaf of leaf_errors
-- parameters: the tables leaf_errors and compared_transfers
-- reason, the first of these that applies:
--   overwritten: the output is that of a nested call
--   not arrived: recorded before the data arrived
--   buffer: memory that the call only fills
--   argument: an output that only passes on an input
--   late digest: the digest of later contents, as the verdict says
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
        FROM compared_transfers
        -- objects travel as pickles, whose tensors have no roles
        WHERE op NOT LIKE '%object%'
        GROUP BY ALL
    )
SELECT
    leaf_errors.step,
    leaf_errors.rank,
    leaf_errors.row,
    CASE
        WHEN role = 'output' AND overwritten THEN 'overwritten'
        WHEN role = 'output' AND asynchronous THEN 'not arrived'
        -- a row of the target has the same number in the comparison
        WHEN role = 'output' AND NOT list_contains(taken, leaf_errors.row) THEN 'argument'
        WHEN
            role = 'input'
            AND is_tensor
            AND NOT coalesce(is_other_tensor, false)
            AND NOT list_contains(given, leaf_errors.row)
            THEN 'buffer'
        WHEN has_late_digest THEN 'late digest'
    END AS reason
FROM leaf_errors
LEFT JOIN calls
    ON calls.step = leaf_errors.step AND calls.rank = leaf_errors.rank AND calls.seq = leaf_errors.target_seq
WHERE reason IS NOT NULL
