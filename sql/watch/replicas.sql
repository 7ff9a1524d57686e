-- replicas: a rank whose values leave those of the other ranks, although all were equal in the first step.
-- grain: one series of one rank, at the first step in which it is another
-- Only what is equal in all ranks at first is taken for a replica: parameters of data parallel ranks, and their
-- gradients behind the reduction. With two ranks nobody can say which is right: both are named.
WITH
    held AS (
        SELECT
            *,
            count(*) OVER together AS ranks,
            mode(coalesce(value::VARCHAR, text)) OVER together AS usual,
            count(DISTINCT coalesce(value::VARCHAR, text)) OVER together AS different,
            min(step) OVER (PARTITION BY name, point, metric) AS first_step
        FROM watched
        WHERE point IN ('parameter', 'parameter_updated', 'gradient', 'moment1', 'moment2', 'update')
        WINDOW together AS (PARTITION BY step, micro_step, name, point, metric)
    ),
    replicated AS (
        SELECT name, point, metric
        FROM held
        WHERE step = first_step
        GROUP BY ALL
        HAVING max(different) = 1 AND min(ranks) > 1
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    format('other ranks have {}', usual) AS reason
FROM held
JOIN replicated USING (name, point, metric)
WHERE different > 1 AND (ranks = 2 OR coalesce(value::VARCHAR, text) <> usual)
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) = 1
