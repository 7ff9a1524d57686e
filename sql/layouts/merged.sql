-- merged: each leaf of the whole with the statistics of its shards together.
-- grain: one leaf of the whole
-- parameters: after chosen
-- Max and min of shards are exact, the mean goes by elements, the norm by squares. Of a partial sum only the mean is
-- known, unless it is one number.
-- is_sum: it is a partial sum that nothing adds up
WITH together AS (
    SELECT
        whole_op,
        slot,
        repeat,
        any_value(ways) AS ways,
        any_value(dimensions) AS dimensions,
        any_value(layout) AS layout,
        any_value(said_by) AS said_by,
        any_value(certainty) AS certainty,
        any_value(problem) AS problem,
        any_value(reason) AS reason,
        any_value(number) AS whole_number,
        any_value(factor) AS factor,
        list_contains(any_value(ways), 'sum') OR list_contains(any_value(ways), 'mean') AS is_sum,
        list_contains(any_value(ways), 'shard') AS is_cut,
        list_contains(any_value(ways), 'mean') AS is_mean,
        count(*) AS shards,
        min(coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1)) AS least_elements,
        sum(coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1)) AS elements,
        max(max * factor) AS max,
        min(min * factor) AS min,
        sum(mean * factor * coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1) ORDER BY rank, micro)
        / sum(coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1)) AS mean,
        sqrt(sum(pow(norm * factor, 2) ORDER BY rank, micro)) AS norm,
        sum(max * factor ORDER BY rank, micro) AS total,
        first(rank ORDER BY rank, micro) AS first_rank,
        first(row ORDER BY rank, micro) AS first_row,
        list(rank ORDER BY rank, micro) AS shard_ranks,
        list(micro ORDER BY rank, micro) AS shard_micros,
        list(row ORDER BY rank, micro) AS shard_rows,
        list(content ORDER BY rank, micro) AS contents
    FROM chosen
    GROUP BY whole_op, slot, repeat
)
SELECT
    * EXCLUDE (max, min, mean, norm, total),
    CASE WHEN NOT is_sum THEN max WHEN elements = shards THEN total / if(is_mean, shards, 1) END AS max,
    CASE WHEN NOT is_sum THEN min WHEN elements = shards THEN total / if(is_mean, shards, 1) END AS min,
    CASE WHEN NOT is_sum THEN mean WHEN elements = shards THEN total / if(is_mean, shards, 1) END AS mean,
    CASE WHEN NOT is_sum THEN norm WHEN elements = shards THEN abs(total / if(is_mean, shards, 1)) END AS norm,
    is_sum AND elements <> shards AND NOT list_contains(list_transform(contents, lambda one: one IS NOT NULL), true) AS is_unknown
FROM together
