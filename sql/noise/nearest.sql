-- nearest: the statistics of the repeat that replaces golden, if repeats are nearer to the target than golden.
-- grain: one tensor of golden
-- parameters: the tables paired, metrics and noise_repeat_rows
-- A repeat that rounds as the target does, such as golden's program on the target's chip, is a better golden: a defect
--   stands out of the little that still differs. Repeats that round at random are nearer by chance only, so no row is
--   replaced unless most rows at the beginning of the program are ten times nearer to a repeat.
-- nearness: how far those rows are from the repeat, relative to how far they are from golden; the same in every row
-- Contents are always compared with golden's.
WITH
    candidates AS (
        SELECT p.golden_row, p.target_max, p.target_min, p.target_norm, p.golden_max, p.golden_min, p.golden_norm, unnest(statistics) AS s
        FROM paired AS p
        JOIN noise_repeat_rows USING (golden_row)
        WHERE p.target_row IS NOT NULL
    ),
    measured AS (
        SELECT
            golden_row,
            distance_of(target_max, target_min, target_norm, golden_max, golden_min, golden_norm) AS own,
            distance_of(target_max, target_min, target_norm, s.max, s.min, s.norm) AS distance,
            s
        FROM candidates
        -- what a repeat did not record, or has as NaN, is near to nothing
        WHERE own > 0 AND isfinite(coalesce(s.max, s.norm))
    ),
    closest AS (
        SELECT golden_row, own, min(distance) AS distance, arg_min(s, (distance, s.repeat)) FILTER (WHERE distance IS NOT NULL) AS s
        FROM measured
        GROUP BY golden_row, own
    ),
    -- where the program begins, before what is wrong has reached most of it
    beginning AS (
        SELECT distance / own AS share_left
        FROM closest
        QUALIFY row_number() OVER (ORDER BY golden_row) <= greatest(16, count(*) OVER () / 16)
    ),
    gate AS (
        SELECT
            median(share_left) AS nearness,
            coalesce(median(share_left) < 0.1, false)
            AND NOT EXISTS (FROM metrics WHERE measurement = 'measured') AS is_open
        FROM beginning
    )
SELECT golden_row, s.max, s.min, s.mean, s.norm, nearness
FROM closest
CROSS JOIN gate
WHERE is_open
