-- layer: pairs ops in the same scope of the model, the first with the first, the second with the second.
-- grain: one pair of a target op and a golden op
-- Modules, API calls and gradients pair with their own kind. An op without such a counterpart in its scope pairs by the
-- wider scope: one side may call an API where the other has a module, or may call it through a function.
WITH
    scoped AS (
        SELECT
            side,
            seq,
            part,
            direction,
            if(is_shared, scope, wide_scope) AS scope,
            if(is_shared, op_kind, 'any') AS kind
        FROM (
            SELECT *, min(side) OVER alike <> max(side) OVER alike AS is_shared
            FROM layer_scopes
            WINDOW alike AS (PARTITION BY part, scope, op_kind, direction)
        )
    ),
    counted AS (
        SELECT
            *,
            row_number() OVER (PARTITION BY side, part, scope, kind, direction ORDER BY seq) AS place
        FROM scoped
    )
SELECT
    target.seq AS target_seq,
    golden.seq AS golden_seq,
    'layer' AS matched_by
FROM counted AS target
JOIN counted AS golden USING (part, scope, kind, direction, place)
WHERE target.side = 'target' AND golden.side = 'golden'
