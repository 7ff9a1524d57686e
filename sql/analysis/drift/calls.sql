-- calls: the selected ops in the units of golden and of every run.
-- grain: one op of one unit
-- parameters: $golden, $runs (golden among them); the view ops, the tables drift_units and drift_chosen
WITH
    units AS (
        SELECT DISTINCT $golden AS run, golden_step AS step, golden_rank AS rank FROM drift_units
        UNION
        SELECT run, step, rank FROM drift_units
    )
SELECT
    run,
    step,
    rank,
    seq,
    chosen.*
FROM ops
JOIN drift_chosen AS chosen USING (op)
JOIN units USING (run, step, rank)
WHERE list_contains($runs, run)
