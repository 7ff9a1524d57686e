-- op_levels: how grave each op is, and the errors of its inputs and outputs.
-- grain: one op of the target, or an op of golden that no op of the target is compared with
-- parameters: the table view_levels
-- golden_seq: of the golden ops that rows of the op are paired with, the one with most rows
-- level: the worst of its rows; error_in, error_out: the largest errors of rows that were compared; NULL if unknown
WITH
    partners AS (
        SELECT step, rank, target_seq, golden_seq, count(*) AS rows
        FROM view_levels
        WHERE target_seq IS NOT NULL AND golden_seq IS NOT NULL
        GROUP BY ALL
    ),
    pairs AS (
        SELECT step, rank, target_seq, arg_max(golden_seq, (rows, -golden_seq)) AS golden_seq
        FROM partners
        GROUP BY ALL
    ),
    owned AS (
        SELECT
            levels.* EXCLUDE (target_seq, golden_seq),
            coalesce(levels.target_seq, pairs.target_seq) AS target_seq,
            if(coalesce(levels.target_seq, pairs.target_seq) IS NULL, levels.golden_seq, NULL) AS golden_seq
        FROM view_levels AS levels
        LEFT JOIN pairs
            ON levels.target_seq IS NULL
            AND pairs.step = levels.step
            AND pairs.rank = levels.rank
            AND pairs.golden_seq = levels.golden_seq
    ),
    ops AS (
        SELECT
            step,
            rank,
            target_seq,
            golden_seq,
            max(level) AS level,
            max(error) FILTER (WHERE is_input AND level > 0) AS error_in,
            max(error) FILTER (WHERE NOT is_input AND level > 0) AS error_out
        FROM owned
        GROUP BY ALL
    )
SELECT
    ops.step,
    ops.rank,
    ops.target_seq,
    coalesce(ops.golden_seq, pairs.golden_seq) AS golden_seq,
    ops.level,
    ops.error_in,
    ops.error_out
FROM ops
LEFT JOIN pairs ON pairs.step = ops.step AND pairs.rank = ops.rank AND pairs.target_seq = ops.target_seq
