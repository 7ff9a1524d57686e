-- leaves: the leaves of a comparison that are not equal, each with the op that both sides share.
-- grain: one leaf: a pair that is not equal, or a row without counterpart
-- parameters: $comparison, $step (NULL: all); the view results, the table leaf_errors
-- A leaf that only one side has belongs to the pair of its op if the op has one, so seq is the target's place there,
-- and NULL only for an op that only golden has.
-- is_argument: the call itself had other arguments: a leaf that is not a tensor differs, or only one side has the leaf, or
--   it is sent or received in another way.
--   A tensor of another dtype or shape is not an argument, because the op that made it may have caused the difference.
-- is_other_tensor: leaf_errors.is_other_tensor
-- target_key: leaf_errors.target_key
-- only_digest: the digests differ and the statistics agree to the last bit; then its error is 0
WITH
    unequal AS (
        SELECT *
        FROM leaf_errors
        WHERE $step IS NULL OR step = $step
    ),
    alone AS (
        SELECT DISTINCT step, rank, target_seq, golden_seq FROM unequal WHERE difference = 'unmatched'
    ),
    -- leaves that are paired one by one may pair an op with several; a semi join, because DuckDB would group all rows before
    -- a join, also where none is alone
    golden_partners AS (
        SELECT results.step, results.rank, results.target_seq, min(results.golden_seq) AS golden_seq
        FROM results
        SEMI JOIN alone
            ON alone.step = results.step
            AND alone.rank = results.rank
            AND alone.target_seq = results.target_seq
        WHERE comparison = $comparison
        GROUP BY ALL
    ),
    target_partners AS (
        SELECT results.step, results.rank, results.golden_seq, min(results.target_seq) AS target_seq
        FROM results
        SEMI JOIN alone
            ON alone.step = results.step
            AND alone.rank = results.rank
            AND alone.golden_seq = results.golden_seq
        WHERE comparison = $comparison
        GROUP BY ALL
    ),
    digests AS (
        SELECT step, rank, row
        FROM results
        WHERE
            comparison = $comparison
            AND target_digest IS NOT NULL
            AND other_digest(target_digest, golden_digest)
            AND max_diff = 0
            AND min_diff = 0
            AND coalesce(mean_diff, 0) = 0
            AND coalesce(norm_diff, 0) = 0
            AND NOT coalesce(values_equal IS NOT NULL, false)
    )
SELECT
    unequal.step,
    unequal.rank,
    unequal.row,
    coalesce(unequal.target_seq, by_golden.target_seq) AS target_seq,
    coalesce(unequal.golden_seq, by_target.golden_seq) AS golden_seq,
    unequal.role IN ('input', 'parameters') AS is_input,
    unequal.is_tensor,
    coalesce(unequal.is_other_tensor, false) AS is_other_tensor,
    unequal.difference,
    unequal.target_key,
    coalesce(if(digests.row IS NULL, unequal.error, 0.0), 1.0) AS error,
    digests.row IS NOT NULL AS only_digest,
    unequal.difference <> 'noise'
    AND (
        NOT coalesce(unequal.is_tensor AND unequal.difference = 'different', false)
        OR coalesce(unequal.is_other_transfer, false)
    )
    AND (unequal.target_seq IS NOT NULL OR by_golden.target_seq IS NOT NULL)
    AND (unequal.golden_seq IS NOT NULL OR by_target.golden_seq IS NOT NULL) AS is_argument
FROM unequal
LEFT JOIN golden_partners AS by_target
    ON unequal.golden_seq IS NULL
    AND by_target.step = unequal.step
    AND by_target.rank = unequal.rank
    AND by_target.target_seq = unequal.target_seq
LEFT JOIN target_partners AS by_golden
    ON unequal.target_seq IS NULL
    AND by_golden.step = unequal.step
    AND by_golden.rank = unequal.rank
    AND by_golden.golden_seq = unequal.golden_seq
LEFT JOIN digests
    ON digests.step = unequal.step
    AND digests.rank = unequal.rank
    AND digests.row = unequal.row
