-- share: how well names pair the ops of two runs; below about one half the two are different implementations.
-- grain: one row
-- share: the larger of two: the share of the smaller side's ops that pair by name and have the same tensors; and the
--   share of APIs and modules that both call equally often. The same program with another batch or data_mode calls all
--   equally often. It is 1 if there are too few ops to decide.
WITH
    target_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM target_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    golden_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM golden_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    calls AS (
        SELECT avg((t.calls IS NOT DISTINCT FROM g.calls)::INTEGER) AS equal_share
        FROM (SELECT stem, count(*) AS calls FROM target_ops GROUP BY stem) AS t
        FULL JOIN (SELECT stem, count(*) AS calls FROM golden_ops GROUP BY stem) AS g ON g.stem = t.stem
    ),
    sizes AS (
        SELECT least((SELECT count(*) FROM target_ops), (SELECT count(*) FROM golden_ops)) AS ops
    ),
    pairs AS (
        SELECT count(*) AS pairs
        FROM match_exact
        LEFT JOIN target_forms ON target_forms.seq = target_seq
        LEFT JOIN golden_forms ON golden_forms.seq = golden_seq
        WHERE target_forms.form IS NOT DISTINCT FROM golden_forms.form
    )
SELECT if(ops < 8, 1, greatest(pairs / ops, equal_share)) AS share
FROM sizes
CROSS JOIN pairs
CROSS JOIN calls
