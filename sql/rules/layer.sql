-- layer: ops of the same layer pair, whatever they are called, as a layer mapping says; the k-th with the k-th.
-- Ops that no layer places pair by name.
CREATE OR REPLACE VIEW op_pairs AS
FROM match_layer
UNION ALL
FROM match_renamed
WHERE
    target_seq NOT IN (SELECT target_seq FROM match_layer)
    AND golden_seq NOT IN (SELECT golden_seq FROM match_layer);
