-- verification_findings: what a verification found, errors first, and what could not run.
-- grain: one result that is not right, or a call without result; equal calls once
-- parameters: $verification; the view verifications
SELECT *
FROM verifications
WHERE verification = $verification AND status <> 'pass'
QUALIFY row_number() OVER (PARTITION BY key, direction, slot, origin ORDER BY place) = 1
ORDER BY array_position(['error', 'warning', 'skip'], status), step, rank, place
