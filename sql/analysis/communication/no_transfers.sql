-- no_transfers: an empty table in place of transfers, if no rank of a run called a collective, send or receive.
-- grain: one transfer of one rank
SELECT
    NULL::INTEGER AS step,
    NULL::INTEGER AS rank,
    NULL::INTEGER AS seq,
    NULL::VARCHAR AS op,
    NULL::VARCHAR AS slot,
    NULL::VARCHAR AS kind,
    NULL::VARCHAR AS reduction,
    NULL::VARCHAR AS group_id,
    NULL::INTEGER [] AS members,
    NULL::INTEGER AS peer,
    NULL::INTEGER AS turn,
    NULL::VARCHAR AS meeting,
    NULL::INTEGER [] AS given,
    NULL::INTEGER [] AS taken,
    NULL::BOOLEAN AS overwritten,
    NULL::BIGINT AS partners,
    NULL::INTEGER [] AS absent,
    NULL::BOOLEAN AS asynchronous,
    NULL::BOOLEAN AS is_waited_for,
    NULL::INTEGER [] AS splits
WHERE false
