-- no_evidence: an empty table in place of a kind of evidence that this comparison cannot have.
-- grain: one op and the leaf that shows it
SELECT
    NULL::BIGINT AS number,
    NULL::INTEGER AS row
WHERE false
