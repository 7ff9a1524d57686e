-- exchanged: the rows of additions and multiplications that take what golden's take in the other order, or give its gradients so:
--   the first tensor has the values of golden's second one, and the second those of golden's first.
-- grain: one row of the comparison, with the golden row that has its values
WITH
    crosswise AS (
        SELECT first.row AS first, second.row AS second, first.golden_row AS first_golden, second.golden_row AS second_golden
        FROM paired AS first
        JOIN paired AS second
            ON second.target_seq = first.target_seq
            AND second.target_slot = replace(first.target_slot, '.0', '.1')
            AND second.golden_slot = second.target_slot
        JOIN target_ops AS o ON o.seq = first.target_seq
        WHERE
            first.target_slot IN ('input.0', 'output.0')
            AND second.target_slot IN ('input.1', 'output.1')
            AND first.role = if(o.direction = 'forward', 'input', 'output')
            AND o.api IN ('__add__', '__mul__', 'add', 'mul', 'multiply', 'maximum', 'minimum')
            AND NOT is_alike(
                first.target_norm, first.target_max, first.target_min, first.golden_norm, first.golden_max, first.golden_min, 1e-3
            )
            AND is_alike(
                first.target_norm, first.target_max, first.target_min, second.golden_norm, second.golden_max, second.golden_min, 1e-3
            )
            AND is_alike(
                second.target_norm, second.target_max, second.target_min, first.golden_norm, first.golden_max, first.golden_min, 1e-3
            )
            AND first.target_shape = second.golden_shape
            AND second.target_shape = first.golden_shape
    )
SELECT first AS row, second_golden AS golden_row
FROM crosswise
UNION ALL
SELECT second, first_golden
FROM crosswise
