-- producers: the earlier op that output an input with NaN or inf, identified by equal statistics.
-- grain: one input tensor with NaN or inf; producer is NULL if no recorded op made it
-- parameters: $run; the view tensors, the tables overflow_leaves, overflow_fillers
-- It is the nearest earlier output with the same statistics and as many elements, else with the same statistics
-- (a slice or an expanded view), else the nearest op that wrote such a value in place into a tensor of that size.
WITH
    known AS (
        -- of a partial sum of ranks the mean alone is known
        SELECT * REPLACE (coalesce(max, mean) AS max, coalesce(min, mean) AS min)
        FROM overflow_leaves
    ),
    given AS (
        FROM known
        WHERE side = 'in' AND kind = 'tensor'
    ),
    made AS (
        SELECT DISTINCT step, rank, seq, elements, max, min
        FROM known
        WHERE side = 'out' AND kind = 'tensor'
    ),
    filled AS (
        SELECT DISTINCT
            leaf.step,
            leaf.rank,
            leaf.seq,
            leaf.kinds,
            coalesce(list_aggregate(tensors.shape, 'product'), 1) AS elements
        FROM overflow_leaves AS leaf
        JOIN overflow_fillers AS fillers ON fillers.name = leaf.name AND fillers.in_place
        JOIN tensors
            ON tensors.run = $run
            AND tensors.step = leaf.step
            AND tensors.rank = leaf.rank
            AND tensors.seq = leaf.seq
            AND tensors.slot = 'input.0'
        WHERE leaf.side = 'in' AND leaf.slot <> 'input.0'
    ),
    exact AS (
        SELECT given.step, given.rank, given.row, made.seq AS producer
        FROM given
        ASOF LEFT JOIN made
            ON made.step = given.step
            AND made.rank = given.rank
            AND made.elements = given.elements
            AND made.max = given.max
            AND made.min = given.min
            AND given.seq > made.seq
    ),
    resized AS (
        SELECT given.step, given.rank, given.row, made.seq AS producer
        FROM given
        ASOF LEFT JOIN made
            ON made.step = given.step
            AND made.rank = given.rank
            AND made.max = given.max
            AND made.min = given.min
            AND given.seq > made.seq
    ),
    in_place AS (
        SELECT given.step, given.rank, given.row, filled.seq AS producer
        FROM given
        ASOF LEFT JOIN filled
            ON filled.step = given.step
            AND filled.rank = given.rank
            AND filled.elements = given.elements
            AND filled.kinds = given.kinds
            AND given.seq > filled.seq
    )
SELECT
    step,
    rank,
    row,
    coalesce(exact.producer, resized.producer, in_place.producer) AS producer
FROM exact
JOIN resized USING (step, rank, row)
JOIN in_place USING (step, rank, row)
