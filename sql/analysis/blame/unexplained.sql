-- unexplained: inputs that differ although no earlier leaf with their value differs.
-- grain: one input leaf of a pair of ops; of the first 64 such ops of a (step, rank)
-- parameters: $comparison; the view results, the tables blame_leaves, blame_ops and transfers
-- If an op passes on what another one made, the value was an output or input of an earlier op and differed there too.
-- The same value means the same max and min, which a transposed, reshaped or widened tensor keeps to the last bit (but
-- not its mean and norm), or the same digest if there are no statistics.
-- target_key, golden_key: the value on either side; target_tells, golden_tells: whether it identifies anything, which a
--   constant (zeros, ones) and a tensor without statistics and digest do not
WITH
    known AS (
        FROM blame_leaves WHERE is_tensor AND target_seq IS NOT NULL
    ),
    first_seen AS (
        SELECT step, rank, target_key, min(target_seq) AS seq FROM known GROUP BY ALL
    ),
    new AS (
        SELECT known.*
        FROM known
        JOIN first_seen USING (step, rank, target_key)
        WHERE
            is_input
            AND known.golden_seq IS NOT NULL
            AND difference = 'different'
            AND first_seen.seq = known.target_seq
    ),
    inputs AS (
        SELECT
            new.step,
            new.rank,
            new.row,
            new.target_seq,
            new.golden_seq,
            new.error,
            new.target_key,
            extremes_key(golden_max, golden_min, golden_digest) AS golden_key,
            if(golden_max IS NULL, golden_digest IS NOT NULL, golden_max <> golden_min) AS golden_tells,
            if(target_max IS NULL, target_digest IS NOT NULL, target_max <> target_min) AS target_tells,
            target_max,
            golden_max,
            target_norm,
            golden_norm
        FROM new
        JOIN results ON results.step = new.step AND results.rank = new.rank AND results.row = new.row
        WHERE comparison = $comparison
    ),
    buffers AS (
        SELECT step, rank, seq, flatten(list(coalesce(given, []))) AS given
        FROM transfers
        SEMI JOIN inputs
            ON inputs.step = transfers.step AND inputs.rank = transfers.rank AND inputs.target_seq = transfers.seq
        GROUP BY ALL
    )
SELECT inputs.*
FROM inputs
LEFT JOIN buffers
    ON buffers.step = inputs.step
    AND buffers.rank = inputs.rank
    AND buffers.seq = inputs.target_seq
WHERE buffers.given IS NULL OR list_contains(buffers.given, inputs.row)
QUALIFY dense_rank() OVER (PARTITION BY inputs.step, inputs.rank ORDER BY inputs.target_seq) <= 64
