-- ptdbg: dumps of ptdbg_ascend, with each other or with a dump of msprobe; tensors are judged as ptdbg_ascend 2 does.
-- A pair of tensors is an error if its cosine is below 0.99 and its largest absolute error above 0.001, and passes
-- otherwise. A pair without these numbers is judged by the default.
-- ptdbg_ascend also records a function that the Functional of the same name calls: Torch.layer_norm in
-- Functional.layer_norm, Tensor.softmax in Functional.softmax. msprobe does not, so these calls are counted separately.
-- Between the two tools, what one does not record is not a difference, and missing counterparts are expected:
-- ptdbg_ascend 2 records no norm, and usually no integers and scalars.
CREATE OR REPLACE VIEW ptdbg_sides AS
SELECT
    target_is_ptdbg,
    golden_is_ptdbg,
    target_is_ptdbg <> golden_is_ptdbg AS is_mixed
FROM (
    SELECT -- msprobe records requires_grad for every tensor, ptdbg_ascend for none
        (SELECT count(requires_grad) = 0 FROM target_leaves) AS target_is_ptdbg,
        (SELECT count(requires_grad) = 0 FROM golden_leaves) AS golden_is_ptdbg
) AS sides;

SET VARIABLE cross_framework = (SELECT if(is_mixed, 1, getvariable('cross_framework')) FROM ptdbg_sides);
SET VARIABLE unmatched_is_finding = (SELECT if(is_mixed, 0, getvariable('unmatched_is_finding')) FROM ptdbg_sides);

CREATE OR REPLACE VIEW ptdbg_ops AS
WITH
    ops AS (
        SELECT 'target' AS side, target_is_ptdbg AND is_mixed AS has_nested, target_ops.*
        FROM target_ops
        CROSS JOIN ptdbg_sides
        UNION ALL
        SELECT 'golden' AS side, golden_is_ptdbg AND is_mixed AS has_nested, golden_ops.*
        FROM golden_ops
        CROSS JOIN ptdbg_sides
    ),
    marked AS (
        SELECT
            *,
            has_nested
            AND api_type <> 'Functional'
            AND coalesce(
                lead(api_type) OVER in_order = 'Functional'
                AND lead(api) OVER in_order = api
                AND lead(direction) OVER in_order = direction,
                false
            ) AS is_nested
        FROM ops
        WINDOW in_order AS (PARTITION BY side, part ORDER BY seq)
    )
SELECT
    side,
    seq,
    part,
    stem,
    is_nested,
    call_number - if(
        is_nested,
        count(*) FILTER (NOT is_nested) OVER earlier,
        count(*) FILTER (is_nested) OVER earlier
    ) AS call_number
FROM marked
WINDOW earlier AS (PARTITION BY side, part, stem ORDER BY seq);

CREATE OR REPLACE VIEW ptdbg_pairs AS
SELECT
    target.seq AS target_seq,
    golden.seq AS golden_seq,
    'exact' AS matched_by
FROM ptdbg_ops AS target
JOIN ptdbg_ops AS golden USING (part, stem, is_nested, call_number)
WHERE target.side = 'target' AND golden.side = 'golden';

CREATE OR REPLACE VIEW op_pairs AS
FROM ptdbg_pairs
UNION ALL
FROM match_exact
WHERE
    target_seq NOT IN (SELECT target_seq FROM ptdbg_pairs)
    AND golden_seq NOT IN (SELECT golden_seq FROM ptdbg_pairs);

CREATE OR REPLACE VIEW verdicts AS
WITH
    judged AS (
        SELECT
            v.*,
            v.outcome IN ('compared', 'equal')
            AND coalesce(m.measurement IN ('scalar', 'empty') OR m.cosine IS NOT NULL, false) AS has_numbers,
            coalesce(m.cosine < 0.99 AND m.max_abs_error > 0.001, false) AS is_off
        FROM verdicts_default AS v
        LEFT JOIN metrics AS m USING (row)
    )
SELECT
    row,
    outcome,
    CASE WHEN NOT has_numbers THEN verdict WHEN is_off THEN 'error' ELSE 'pass' END AS verdict,
    CASE
        WHEN NOT has_numbers THEN messages
        WHEN is_off THEN ['error: the cosine is below 0.99 and the largest absolute error above 0.001']
        ELSE []::VARCHAR[]
    END AS messages
FROM judged;
