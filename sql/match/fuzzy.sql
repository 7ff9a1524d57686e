-- fuzzy: pairs the same op under the same module in the same direction, where call numbers or classes differ.
-- Sequences are aligned by anchors, without search. In a gap (at first the whole dump) ops of one name and signature
-- that both sides have equally often pair k-th with k-th; of pairs that cross, the farthest out of place fall first.
-- Those that cross none are anchors: they cut the gap into smaller ones for the next of `rounds`, so that a missing
-- call moves nothing beyond its neighbours. The rest pairs k-th with k-th between paired calls of the same name; a
-- backward op goes with its forward op where both have pairs, even across others. No op pairs into another module.
-- grain: one pair of ops
WITH RECURSIVE
    rounds (round, by_signature, equally_many) AS (
        VALUES (1, true, true), (2, true, true), (3, false, true), (4, true, true), (5, true, false), (6, false, false)
    ),
    element_types AS (
        SELECT dtype, element_type(dtype) AS element_type
        FROM (SELECT DISTINCT dtype FROM target_leaves UNION SELECT DISTINCT dtype FROM golden_leaves)
    ),
    tensors AS (
        SELECT true AS is_target, seq, slot, "repeat", dtype, shape FROM target_leaves WHERE kind = 'tensor'
        UNION ALL
        SELECT false, seq, slot, "repeat", dtype, shape FROM golden_leaves WHERE kind = 'tensor'
    ),
    structures AS (
        SELECT is_target, seq, bit_xor(hash(slot, "repeat", element_type, shape)) AS structure
        FROM tensors
        JOIN element_types USING (dtype)
        GROUP BY is_target, seq
    ),
    named AS (
        SELECT
            true AS is_target,
            seq,
            op_kind,
            direction,
            renamed_ops.part,
            renamed_ops.stem,
            renamed_ops.parent,
            hash(renamed_ops.part, api_type, api, module_class, call) AS call
        FROM renamed_ops
        JOIN target_ops USING (seq)
        UNION ALL
        SELECT
            false,
            seq,
            op_kind,
            direction,
            part,
            stem,
            parent,
            hash(part, api_type, api, module_class, call)
        FROM golden_ops
    ),
    nesting AS (  -- a dump of APIs only has no modules to compare
        SELECT count(parent) FILTER (is_target) > 0 AND count(parent) FILTER (NOT is_target) > 0 AS is_known
        FROM named
    ),
    keyed AS (
        SELECT
            is_target,
            seq,
            direction,
            call,
            hash(
                part,
                if(
                    op_kind IN ('module', 'parameters_grad'),
                    regexp_replace(stem, '\.[^.]+(\.[^.]+)$', '\1'),
                    stem
                ),
                if(is_known, regexp_replace(parent, '\.[^.]+(\.[^.]+)\.\d+$', '\1'), NULL)
            ) AS key
        FROM named
        CROSS JOIN nesting
    ),
    ops AS MATERIALIZED (
        SELECT keyed.*, hash(key, structure) AS signature
        FROM keyed
        LEFT JOIN structures USING (is_target, seq)
    ),
    aligned AS (
        SELECT 0 AS round, 0::UBIGINT AS gap, is_target, seq, key, signature, NULL::INTEGER AS partner
        FROM ops
        UNION ALL
        (
            WITH
                waiting AS (
                    SELECT rounds.*, gap, is_target, seq, key, signature, if(by_signature, signature, key) AS label
                    FROM aligned
                    JOIN rounds ON rounds.round = aligned.round + 1
                    WHERE partner IS NULL
                ),
                known AS (
                    SELECT gap, signature
                    FROM waiting
                    GROUP BY gap, signature
                    HAVING bool_or(is_target) AND NOT bool_and(is_target)
                ),
                eligible AS (
                    SELECT * FROM waiting WHERE by_signature
                    UNION ALL
                    SELECT * FROM waiting ANTI JOIN known USING (gap, signature) WHERE NOT by_signature
                ),
                labels AS (
                    SELECT gap, label
                    FROM eligible
                    GROUP BY gap, label, equally_many
                    HAVING if(
                        equally_many,
                        2 * count(*) FILTER (is_target) = count(*),
                        bool_or(is_target) AND NOT bool_and(is_target)
                    )
                ),
                numbered AS (
                    SELECT
                        gap,
                        label,
                        is_target,
                        seq,
                        row_number() OVER (PARTITION BY gap, label, is_target ORDER BY seq) AS k
                    FROM eligible
                    SEMI JOIN labels USING (gap, label)
                ),
                candidates AS (
                    SELECT
                        gap,
                        any_value(seq) FILTER (is_target) AS target_seq,
                        any_value(seq) FILTER (NOT is_target) AS golden_seq
                    FROM numbered
                    GROUP BY gap, label, k
                    HAVING count(*) = 2
                ),
                placed AS (
                    SELECT
                        *,
                        row_number() OVER (PARTITION BY gap ORDER BY target_seq) AS target_place,
                        row_number() OVER (PARTITION BY gap ORDER BY golden_seq) AS golden_place
                    FROM candidates
                ),
                bounded AS (
                    SELECT
                        *,
                        max(golden_place) OVER (PARTITION BY gap ORDER BY target_place) = target_place AS ends_knot
                    FROM placed
                ),
                knotted AS (
                    SELECT
                        *,
                        count(*) FILTER (ends_knot) OVER (PARTITION BY gap ORDER BY target_place DESC) AS knot,
                        abs(golden_place - target_place) AS distance
                    FROM bounded
                ),
                near AS (
                    SELECT *
                    FROM knotted
                    QUALIFY distance = 0 OR 2 * distance < max(distance) OVER (PARTITION BY gap, knot)
                ),
                anchors AS (
                    SELECT *
                    FROM near
                    QUALIFY golden_seq = max(golden_seq) OVER (PARTITION BY gap ORDER BY target_seq)
                        AND golden_seq = min(golden_seq) OVER (PARTITION BY gap ORDER BY target_seq DESC)
                ),
                partners AS (
                    SELECT true AS is_target, target_seq AS seq, golden_seq AS partner FROM anchors
                    UNION ALL
                    SELECT false, golden_seq, target_seq FROM anchors
                )
            SELECT
                round,
                hash(gap, count(partner) OVER (PARTITION BY gap, is_target ORDER BY seq)) AS gap,
                is_target,
                seq,
                key,
                signature,
                partner
            FROM waiting
            LEFT JOIN partners USING (is_target, seq)
        )
    ),
    anchored AS (
        SELECT is_target, seq, partner FROM aligned WHERE partner IS NOT NULL
    ),
    open_keys AS (
        SELECT key
        FROM ops
        ANTI JOIN anchored USING (is_target, seq)
        GROUP BY key
        HAVING bool_or(is_target) AND NOT bool_and(is_target)
    ),
    neighboured AS (
        SELECT
            is_target,
            seq,
            key,
            partner,
            count(partner) OVER (PARTITION BY is_target, key ORDER BY seq) AS gap
        FROM ops
        SEMI JOIN open_keys USING (key)
        LEFT JOIN anchored USING (is_target, seq)
    ),
    left_over AS (
        SELECT is_target, seq, key, gap, row_number() OVER (PARTITION BY is_target, key, gap ORDER BY seq) AS k
        FROM neighboured
        WHERE partner IS NULL
    ),
    in_order AS (
        SELECT seq AS target_seq, partner AS golden_seq
        FROM anchored
        WHERE is_target
        UNION ALL
        SELECT any_value(seq) FILTER (is_target), any_value(seq) FILTER (NOT is_target)
        FROM left_over
        GROUP BY key, gap, k
        HAVING count(*) = 2
    ),
    backward_of AS (
        SELECT forwards.is_target, forwards.seq AS forward_seq, backwards.seq, backwards.key
        FROM ops AS forwards
        JOIN ops AS backwards USING (is_target, call)
        WHERE forwards.direction = 'forward' AND backwards.direction = 'backward'
    ),
    linked AS (
        SELECT targets.seq AS target_seq, goldens.seq AS golden_seq
        FROM in_order
        JOIN backward_of AS targets ON targets.is_target AND targets.forward_seq = in_order.target_seq
        JOIN backward_of AS goldens ON NOT goldens.is_target AND goldens.forward_seq = in_order.golden_seq
        WHERE targets.key = goldens.key
    )
SELECT target_seq, golden_seq, 'fuzzy' AS matched_by FROM linked
UNION ALL
SELECT target_seq, golden_seq, 'fuzzy'
FROM in_order
WHERE target_seq NOT IN (SELECT target_seq FROM linked) AND golden_seq NOT IN (SELECT golden_seq FROM linked)
