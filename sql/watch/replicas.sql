-- replicas: a rank whose values leave those of the other ranks, although all were equal in the first step.
-- grain: one series of one rank, at the first step in which it is another
-- Only what is equal in all ranks at first is taken for a replica: parameters of data parallel ranks, and their
-- gradients behind the reduction. What most ranks have is right. Where no value is that of most, as with two ranks, nobody
-- can say: all are named.
-- usual, rival: the values that most ranks have, the same unless there are several
WITH
    counted AS (
        SELECT
            *,
            coalesce(value::VARCHAR, text) AS held,
            count(*) OVER (PARTITION BY step, micro_step, name, point, metric, held) AS alike
        FROM watched
        WHERE point IN ('parameter', 'parameter_updated', 'gradient', 'moment1', 'moment2', 'update')
    ),
    compared AS (
        SELECT
            *,
            count(*) OVER together AS ranks,
            count(DISTINCT held) OVER together AS different,
            arg_min(held, (-alike, held)) OVER together AS usual,
            arg_max(held, (alike, held)) OVER together AS rival,
            min(step) OVER (PARTITION BY name, point, metric) AS first_step
        FROM counted
        WINDOW together AS (PARTITION BY step, micro_step, name, point, metric)
    ),
    replicated AS (
        SELECT name, point, metric
        FROM compared
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
    format('other ranks have {}', if(held = usual, rival, usual)) AS reason
FROM compared
JOIN replicated USING (name, point, metric)
WHERE different > 1 AND (held <> usual OR usual <> rival)
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) = 1
