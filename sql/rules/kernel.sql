-- kernel: two dumps of MindSpore's static graphs, whose kernels pair by op name and task in order.
-- The k-th execution pairs with the k-th, whatever its type, network and graph; in it tensors pair by input or output
-- and slot. All else pairs by name. Verdicts are the default's. msprobe's own verdict for kernels (cosine < 0.99 and
-- largest error > 0.001) ignores inputs, so it cannot distinguish the faulty kernel from later ones, and misses small
-- defects.
CREATE OR REPLACE VIEW op_pairs AS
WITH
    target_kernels AS (
        SELECT
            seq,
            api AS name,
            regexp_extract(stem, '[^.]+$') AS task,
            row_number() OVER (PARTITION BY name, task ORDER BY seq) AS execution
        FROM target_ops
        WHERE op_kind = 'kernel'
    ),
    golden_kernels AS (
        SELECT
            seq,
            api AS name,
            regexp_extract(stem, '[^.]+$') AS task,
            row_number() OVER (PARTITION BY name, task ORDER BY seq) AS execution
        FROM golden_ops
        WHERE op_kind = 'kernel'
    )
SELECT
    target_kernels.seq AS target_seq,
    golden_kernels.seq AS golden_seq,
    'kernel' AS matched_by
FROM target_kernels
JOIN golden_kernels USING (name, task, execution)
UNION ALL
SELECT
    target_seq,
    golden_seq,
    matched_by
FROM match_exact
JOIN target_ops ON target_ops.seq = match_exact.target_seq
WHERE op_kind <> 'kernel';
