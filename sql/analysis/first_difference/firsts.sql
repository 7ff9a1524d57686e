-- firsts: the first op of each rank that differs.
-- grain: one (step, rank) in which something differs
-- parameters: $steps (empty: all), $paired (pass over ops without counterpart); the table changed_ops
-- paired_seq: the first that differs among those with a counterpart
SELECT
    *,
    min(target_seq) FILTER (WHERE finding = 'different') OVER (PARTITION BY step, rank) AS paired_seq
FROM changed_ops
WHERE
    (NOT $paired OR finding = 'different')
    AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place, golden_seq) = 1
