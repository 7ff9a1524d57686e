-- anomalies: what the rules found, the earliest first.
-- grain: one finding of a rule
SELECT *
FROM anomalies
ORDER BY step, rank, rule, name, point, metric
