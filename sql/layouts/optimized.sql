-- optimized: the ops after the last backward that take a parameter, and which it may be.
-- grain: one op
-- parameters: $run, $step, $rank
WITH
    leaves AS (
        SELECT
            tensors.*,
            hash(shape, coalesce(content, digest), if(content IS NULL, [max, min, mean, norm], NULL)) AS sig
        FROM tensors
        WHERE run = $run AND step = $step AND rank = $rank AND kind = 'tensor'
    ),
    last AS (
        SELECT coalesce(max(seq), -1) AS seq
        FROM ops
        WHERE run = $run AND step = $step AND rank = $rank AND direction = 'backward'
    ),
    parameters AS (
        SELECT
            sig,
            regexp_extract(leaves.op, '^[^.]+\.(.*)\.[^.]+\.forward\.\d+$', 1) AS path,
            slot,
            min(row) AS row
        FROM leaves
        WHERE role = 'parameters'
        GROUP BY ALL
    )
SELECT
    leaves.seq,
    list([parameters.path, parameters.slot] ORDER BY parameters.row) AS candidates
FROM leaves
JOIN last
    ON leaves.seq > last.seq
JOIN parameters
    ON parameters.sig = leaves.sig
WHERE leaves.role = 'input' AND leaves.op NOT LIKE 'Distributed.%'
GROUP BY leaves.seq
ORDER BY leaves.seq
