-- layer: pairs ops of the same layer in order, whatever their names, as a layer mapping says.
-- Ops without a layer pair by name.
CREATE OR REPLACE VIEW op_pairs AS
FROM match_layer
UNION ALL
FROM match_renamed
WHERE
    target_seq NOT IN (SELECT target_seq FROM match_layer)
    AND golden_seq NOT IN (SELECT golden_seq FROM match_layer);
