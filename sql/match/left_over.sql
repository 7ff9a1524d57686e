-- left_over: the rows without counterpart that the search can explain.
-- grain: one row of the comparison
-- outcome: inside (an intermediate step between tensors that are compared), structure (computes nothing) or unmatched
--   (an op that the other program skips)
WITH
    alone AS (
        SELECT pairing.row, 'target' AS side, leaf.seq, leaf.row AS own_row
        FROM pairing
        JOIN target_leaves AS leaf ON leaf.row = pairing.target_row
        WHERE pairing.golden_row IS NULL
        UNION ALL
        SELECT pairing.row, 'golden' AS side, leaf.seq, leaf.row AS own_row
        FROM pairing
        JOIN golden_leaves AS leaf ON leaf.row = pairing.golden_row
        WHERE pairing.target_row IS NULL
    )
SELECT
    alone.row,
    coalesce(own.outcome, of_op.outcome) AS outcome,
    coalesce(own.reason, of_op.reason) AS reason
FROM alone
LEFT JOIN search_left AS own ON own.side = alone.side AND own.row = alone.own_row
LEFT JOIN search_left AS of_op ON of_op.side = alone.side AND of_op.seq = alone.seq AND of_op.row IS NULL
WHERE coalesce(own.outcome, of_op.outcome) IS NOT NULL
