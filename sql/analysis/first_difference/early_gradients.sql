-- early_gradients: parameter gradients that old releases of msprobe write before the forward pass.
-- grain: one such op of one (step, rank) of the target
-- parameters: $run (the target); the view ops
-- late_place: after all ops, because no op can have used them before the backward pass ended
SELECT step, rank, seq AS target_seq, max(seq) OVER unit + 1 + seq AS late_place
FROM ops
WHERE run = $run
WINDOW unit AS (PARTITION BY step, rank)
QUALIFY
    direction = 'parameters_grad'
    AND seq < coalesce(min(seq) FILTER (WHERE direction = 'backward') OVER unit, 'inf'::DOUBLE)
