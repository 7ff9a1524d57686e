-- gradient_sums: how far the gradients err that no op put out.
-- grain: one input of a backward op that no earlier op put out
-- parameters: the table noise_leaves
-- error: Such a gradient is the sum of those of its shape since the last such sum that no op took; sums are not recorded. What
--   is small in it errs all the same, so it errs by the largest error of these, by its own size
WITH
    gradients AS (
        SELECT number, row, n, width, is_input, target_key, taken, greatest(target_norm, golden_norm) AS norm
        FROM noise_leaves
        WHERE is_paired AND phase = 'backward' AND op_is_leaf AND is_float AND role IN ('input', 'output') AND target_key IS NOT NULL
    ),
    -- what no op put out
    totals AS (
        SELECT gradients.*
        FROM gradients
        LEFT JOIN (SELECT target_key, min(number) AS number FROM gradients WHERE NOT is_input GROUP BY target_key) AS made
            ON made.target_key = gradients.target_key AND made.number < gradients.number
        WHERE gradients.is_input AND norm > 0 AND made.number IS NULL
    ),
    -- what no op took
    parts AS (
        SELECT gradients.*
        FROM gradients
        LEFT JOIN (SELECT target_key, max(number) AS number FROM gradients WHERE is_input GROUP BY target_key) AS used
            ON used.target_key = gradients.target_key AND used.number > gradients.number
        WHERE NOT gradients.is_input AND taken > 0 AND used.number IS NULL
    )
SELECT whole.row, least(1, max(part.taken * part.norm / whole.norm)) AS error
FROM parts AS part
ASOF JOIN totals AS whole ON whole.n = part.n AND whole.width = part.width AND whole.number > part.number
GROUP BY whole.row
