-- runs: where each run leaves golden.
-- grain: one run, in the order given
-- parameters: $runs; the tables drift_rows and drift_units
-- row, rank, distance: the farthest row at the first step at which any row is away
WITH
    units AS (
        SELECT
            run,
            count(*) FILTER (WHERE step IS NOT NULL AND golden_step IS NOT NULL) AS units,
            count(*) FILTER (WHERE step IS NULL OR golden_step IS NULL) AS units_missing
        FROM drift_units
        GROUP BY run
    ),
    firsts AS (
        FROM drift_rows
        WHERE leaves_at IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY run ORDER BY leaves_at, distance_there DESC, name, rank) = 1
    ),
    counts AS (
        SELECT
            run,
            count(*) AS rows,
            count(leaves_at) AS rows_away,
            max(worst) AS worst
        FROM drift_rows
        GROUP BY run
    )
SELECT
    run,
    firsts.leaves_at,
    firsts.rank,
    firsts.name,
    firsts.distance_there AS distance,
    counts.worst,
    coalesce(rows_away, 0) AS rows_away,
    coalesce(counts.rows, 0) AS rows,
    units,
    units_missing
FROM units
LEFT JOIN counts USING (run)
LEFT JOIN firsts USING (run)
ORDER BY list_position($runs, run)
