-- expected: what the result of each part of a meeting is made of, by its law.
-- grain: one tensor, or piece of one (`elements` from `first` on), that goes into one part
-- parameters: after the laws
-- Pieces of one layer follow one another by place; layers are reduced, element by element.
SELECT
    * REPLACE (CAST(first AS BIGINT) AS first, CAST(elements AS BIGINT) AS elements)
FROM (
    FROM law_reduction
    UNION ALL BY NAME
    FROM law_concatenation
    UNION ALL BY NAME
    FROM law_shards
    UNION ALL BY NAME
    FROM law_broadcast
    UNION ALL BY NAME
    FROM law_scatter
    UNION ALL BY NAME
    FROM law_exchange
    UNION ALL BY NAME
    FROM law_delivery
    UNION ALL BY NAME
    FROM law_same_results
)
