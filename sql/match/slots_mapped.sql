-- slots_mapped: the rows that a data mapping pairs, then the leaves of each pair of ops, by slot, as slot_mapping says.
-- grain: one pair of a target row and a golden row
-- A section (input, output, parameters) with rows in slot_mapping pairs as listed, including the parts of a slot, for
-- which the longest listed slot counts; all else pairs by equal slots. A listed slot without golden slot has no counterpart. * stands for all slots of a
-- direction, and, for a parameter's gradient, whose slot is the parameter's name, for all gradients.
WITH
    keys AS (
        SELECT 'target' AS side, seq, direction, unnest(api_keys(api_type, api, module_class)) AS api FROM target_ops
        UNION ALL
        SELECT 'golden' AS side, seq, direction, unnest(api_keys(api_type, api, module_class)) AS api FROM golden_ops
    ),
    listed AS (
        SELECT DISTINCT
            op_pairs.target_seq,
            slot_mapping.target_slot,
            slot_mapping.golden_slot,
            if(
                t.direction = 'parameters_grad' AND NOT contains(slot_mapping.target_slot, '.'),
                '*',
                split_part(slot_mapping.target_slot, '.', 1)
            ) AS section
        FROM op_pairs
        JOIN keys AS t ON t.side = 'target' AND t.seq = op_pairs.target_seq
        JOIN keys AS g ON g.side = 'golden' AND g.seq = op_pairs.golden_seq
        JOIN slot_mapping
            ON slot_mapping.target_api = t.api
            AND slot_mapping.golden_api = g.api
            AND coalesce(slot_mapping.direction, t.direction) = t.direction
    ),
    leaves AS (
        SELECT
            leaf.row,
            leaf.repeat,
            op_pairs.golden_seq,
            op_pairs.matched_by,
            if(
                listed.target_slot IS NULL,
                leaf.slot,
                listed.golden_slot || substr(leaf.slot, length(listed.target_slot) + 1)
            ) AS golden_slot
        FROM target_leaves AS leaf
        JOIN op_pairs ON op_pairs.target_seq = leaf.seq
        LEFT JOIN listed
            ON listed.target_seq = leaf.seq
            AND (leaf.slot = listed.target_slot OR starts_with(leaf.slot, listed.target_slot || '.'))
        WHERE
            listed.target_slot IS NOT NULL
            OR (leaf.seq, split_part(leaf.slot, '.', 1)) NOT IN (SELECT (target_seq, section) FROM listed)
            AND leaf.seq NOT IN (SELECT target_seq FROM listed WHERE section = '*')
        QUALIFY rank() OVER (PARTITION BY leaf.row ORDER BY length(listed.target_slot) DESC) = 1
    ),
    by_slot AS (
        SELECT
            leaves.row AS target_row,
            golden.row AS golden_row,
            leaves.matched_by
        FROM leaves
        JOIN golden_leaves AS golden
            ON golden.seq = leaves.golden_seq AND golden.slot = leaves.golden_slot AND golden.repeat = leaves.repeat
        WHERE
            leaves.row NOT IN (SELECT target_row FROM match_data)
            AND golden.row NOT IN (SELECT golden_row FROM match_data)
        QUALIFY
            row_number() OVER (PARTITION BY leaves.row ORDER BY golden.row) = 1
            AND row_number() OVER (PARTITION BY golden.row ORDER BY leaves.row) = 1
    )
FROM match_data
UNION ALL
FROM by_slot
