-- no_evidence: an empty table in place of a kind of evidence that this comparison cannot have.
-- grain: one op and the leaf that shows it
-- is_apart: of noise/sources alone
SELECT
    NULL::BIGINT AS number,
    NULL::INTEGER AS row,
    NULL::BOOLEAN AS is_apart
WHERE false
