-- series_rows: the series that leave golden, as the rows of a picture.
-- grain: one series, the earliest first
-- parameters: the table drift_series
SELECT
    rank,
    if(point = 'logged', name, format('{}: {} of its {}', name, metric, point)) AS name,
    name AS series_name,
    point AS role,
    metric,
    step AS leaves_at,
    largest AS worst
FROM drift_series
ORDER BY leaves_at, role <> 'logged', series_name, role, metric, rank
