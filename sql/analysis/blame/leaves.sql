-- leaves: the leaves of a comparison that are not equal, each with the op that both sides share.
-- grain: one leaf: a pair that is not equal, or a row without counterpart
-- parameters: $comparison, $step (NULL: all); the view results, the table leaf_errors
-- A leaf that only one side has belongs to the pair of its op where the op has one, so seq is the target's place there
--   and NULL only for an op that golden alone has.
-- is_argument: the call itself was another one: a leaf that is no tensor differs, or only one side has the leaf.
--   A tensor of another dtype or shape is no argument: the difference may have come from the op that made it.
-- is_other_tensor: a tensor of another dtype or shape
-- only_digest: the digests differ and the statistics do not, to the last bit; its error is 0 then
WITH
    apart AS (
        SELECT *
        FROM leaf_errors
        WHERE $step IS NULL OR step = $step
    ),
    alone AS (
        SELECT DISTINCT step, rank, target_seq, golden_seq FROM apart WHERE difference = 'unmatched'
    ),
    pairs AS (
        SELECT DISTINCT results.step, results.rank, results.target_seq, results.golden_seq
        FROM results
        JOIN alone
            ON alone.step = results.step
            AND alone.rank = results.rank
            AND (alone.target_seq = results.target_seq)
        WHERE comparison = $comparison AND results.golden_seq IS NOT NULL
        UNION
        SELECT DISTINCT results.step, results.rank, results.target_seq, results.golden_seq
        FROM results
        JOIN alone
            ON alone.step = results.step
            AND alone.rank = results.rank
            AND (alone.golden_seq = results.golden_seq)
        WHERE comparison = $comparison AND results.target_seq IS NOT NULL
    ),
    digests AS (
        SELECT step, rank, row
        FROM results
        WHERE
            comparison = $comparison
            AND target_digest <> golden_digest
            AND max_diff = 0
            AND min_diff = 0
            AND coalesce(norm_diff, 0) = 0
            AND NOT coalesce(values_equal IS NOT NULL, false)
    )
SELECT
    apart.step,
    apart.rank,
    apart.row,
    coalesce(apart.target_seq, by_golden.target_seq) AS target_seq,
    coalesce(apart.golden_seq, by_target.golden_seq) AS golden_seq,
    apart.role IN ('input', 'parameters') AS is_input,
    apart.is_tensor,
    coalesce(apart.is_other_tensor, false) AS is_other_tensor,
    apart.difference,
    coalesce(if(digests.row IS NULL, apart.error, 0.0), 1.0) AS error,
    digests.row IS NOT NULL AS only_digest,
    apart.difference <> 'noise' AND NOT coalesce(apart.is_tensor AND apart.difference = 'different', false)
    AND (apart.target_seq IS NOT NULL OR by_golden.target_seq IS NOT NULL)
    AND (apart.golden_seq IS NOT NULL OR by_target.golden_seq IS NOT NULL) AS is_argument
FROM apart
LEFT JOIN pairs AS by_target
    ON apart.golden_seq IS NULL
    AND by_target.step = apart.step
    AND by_target.rank = apart.rank
    AND by_target.target_seq = apart.target_seq
LEFT JOIN pairs AS by_golden
    ON apart.target_seq IS NULL
    AND by_golden.step = apart.step
    AND by_golden.rank = apart.rank
    AND by_golden.golden_seq = apart.golden_seq
LEFT JOIN digests
    ON digests.step = apart.step
    AND digests.rank = apart.rank
    AND digests.row = apart.row
