-- perturbation_findings: the ops that a change of their inputs moved too far, those that do not repeat themselves first.
-- grain: one op and mode, with its worst result
-- parameters: $perturbation; the view perturbations
SELECT
    op, mode, status, arg_max(slot, max_relative) AS slot, any_value(dtype) AS dtype,
    max(max_relative) AS max_relative, any_value("limit") AS "limit", bool_or(flips_sign) AS flips_sign,
    max(condition) AS condition
FROM perturbations
WHERE perturbation = $perturbation AND status NOT IN ('stable', 'skip')
GROUP BY op, mode, status
ORDER BY array_position(['random', 'differs', 'unstable'], status), max_relative DESC, op, mode
