-- blocks: how grave each block of the model is on each rank in each step: the cells of the heat maps.
-- grain: one block in one direction of one (step, rank)
-- parameters: $target; the view ops, the table view_ops
-- block: the path of the enclosing module up to its first number (layers.3 of layers.3.mlp.fc1), or the first name of
--   a path without one; the parent itself if it is not a module (optimizer)
WITH
    placed AS (
        SELECT
            step,
            rank,
            seq,
            if(direction = 'parameters_grad', 'backward', coalesce(direction, '')) AS direction,
            parent,
            if(
                kind IN ('module', 'parameters_grad'),
                api,
                regexp_extract(parent, '^(?:Module|Cell)\.(.*)\.[^.]+\.(?:forward|backward)\.\d+$', 1)
            ) AS path
        FROM ops
        WHERE run = $target
    ),
    named AS (
        SELECT
            * EXCLUDE (parent, path),
            coalesce(
                nullif(regexp_extract(path, '^(.+?\.\d+)(?:\.|$)', 1), ''),
                nullif(split_part(path, '.', 1), ''),
                parent,
                'outside modules'
            )[:80] AS block
        FROM placed
    )
SELECT
    named.step,
    named.rank,
    block,
    direction,
    min(named.seq) AS first_seq,
    max(level) AS level,
    max(error_out) AS error
FROM named
JOIN view_ops AS judged
    ON judged.step = named.step
    AND judged.rank = named.rank
    AND judged.target_seq = named.seq
GROUP BY ALL
ORDER BY named.step, named.rank, first_seq
