-- merged: each leaf of the whole with the statistics of its shards together.
-- grain: one leaf of the whole
-- parameters: after decided, chosen (the members that the whole is made of)
-- Max and min of shards are exact, the mean goes by elements, the norm by squares. Of a partial sum only the mean is
-- known, which is the sum of the means, unless it is one number. What a shard with elements has not recorded is not known
-- of the whole. DuckDB orders NaN above all numbers, and a tensor with NaN has no other min.
-- summands: how many ranks' numbers add up to one of the whole
-- is_sum: it is a partial sum that nothing adds up
WITH
    gathered AS (
        SELECT
            leaf,
            if(bool_and(max IS NOT NULL OR elements = 0), max(max * factor), NULL) AS max,
            CASE
                WHEN bool_or(isnan(min)) THEN 'nan'::DOUBLE
                WHEN bool_and(min IS NOT NULL OR elements = 0) THEN min(min * factor)
            END AS min,
            bool_and(mean IS NOT NULL OR elements = 0) AS has_means,
            bool_and(norm IS NOT NULL OR elements = 0) AS has_norms,
            max(factor) AS factor,
            bool_or(content IS NOT NULL) AS has_contents,
            bool_and(content IS NOT NULL) AS has_all_contents,
            count(DISTINCT along(places, decided.ways, 'sum')) AS summands,
            count(DISTINCT along(places, decided.ways, 'mean')) AS parts,
            list_sort(
                list(
                    {
                        'rank': rank,
                        'micro': micro,
                        'row': row,
                        'elements': elements,
                        'sum': if(elements = 0, NULL, mean * factor * elements),
                        'square': pow(norm * factor, 2),
                        'number': max * factor
                    }
                )
            ) AS shards
        FROM chosen
        JOIN decided
            USING (leaf)
        GROUP BY leaf
    ),
    together AS (
        SELECT
            gathered.* EXCLUDE (shards, has_means, has_norms),
            len(gathered.shards) AS shards,
            list_transform(gathered.shards, lambda shard: shard.rank) AS shard_ranks,
            list_transform(gathered.shards, lambda shard: shard.micro) AS shard_micros,
            list_transform(gathered.shards, lambda shard: shard.row) AS shard_rows,
            list_sum(list_transform(gathered.shards, lambda shard: shard.elements)) AS elements,
            if(has_means, list_sum(list_transform(gathered.shards, lambda shard: shard.sum)) / elements, NULL) AS mean,
            if(has_norms, sqrt(list_sum(list_transform(gathered.shards, lambda shard: shard.square))), NULL) AS norm,
            if(gathered.max IS NULL, NULL, list_sum(list_transform(gathered.shards, lambda shard: shard.number))) AS total
        FROM gathered
    ),
    placed AS (
        SELECT
            together.*,
            decided.* EXCLUDE (leaf, source, number),
            decided.source AS said_by,
            decided.number AS whole_number,
            list_has_any(ways, ['sum', 'mean', 'max', 'min']) AS is_sum,
            list_has_any(ways, ['max', 'min']) AS is_extreme,
            list_contains(ways, 'shard') AS is_cut
        FROM together
        JOIN decided
            USING (leaf)
    )
SELECT
    * EXCLUDE (max, min, mean, norm, total, parts, summands, is_extreme, has_all_contents),
    CASE WHEN unknown IS NOT NULL THEN NULL WHEN NOT is_sum THEN max WHEN is_extreme THEN NULL WHEN elements = shards THEN total / parts END AS max,
    CASE WHEN unknown IS NOT NULL THEN NULL WHEN NOT is_sum THEN min WHEN is_extreme THEN NULL WHEN elements = shards THEN total / parts END AS min,
    CASE WHEN unknown IS NOT NULL THEN NULL WHEN NOT is_sum THEN mean WHEN is_extreme THEN NULL WHEN elements = shards THEN total / parts ELSE mean * summands END AS mean,
    CASE WHEN unknown IS NOT NULL THEN NULL WHEN NOT is_sum THEN norm WHEN is_extreme THEN NULL WHEN elements = shards THEN abs(total / parts) END AS norm,
    has_all_contents AND unknown IS NULL AND NOT is_reordered AS has_all_contents,
    unknown IS NOT NULL OR (is_sum AND elements <> shards AND NOT has_contents) AS is_unknown
FROM placed
