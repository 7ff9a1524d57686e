-- early_gradients: parameters' gradients that old releases of msprobe write ahead of the forward pass that they come of.
-- grain: one such op of one (step, rank) of the target
-- parameters: $run (the target); the view ops
-- late_place: behind all ops, since none of them can have had it before the backward pass was through
SELECT step, rank, seq AS target_seq, max(seq) OVER unit + 1 + seq AS late_place
FROM ops
WHERE run = $run
WINDOW unit AS (PARTITION BY step, rank)
QUALIFY
    direction = 'parameters_grad'
    AND seq < coalesce(min(seq) FILTER (WHERE direction = 'backward') OVER unit, 'inf'::DOUBLE)
