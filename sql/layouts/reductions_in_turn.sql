-- reductions_in_turn: reductions over one axis, and over one after another.
-- grain: one value of a rank, and set of axes
-- parameters: after reductions_single
-- Where a value comes to the same axes in several ways, as in either turn, one of them counts: a single call if there is one.
WITH
    found AS (
        SELECT *, 1 AS calls, axes AS first_axes
        FROM reductions_single
        UNION ALL BY NAME
        SELECT
            first.rank,
            list_sort(first.axes || second.axes) AS axes,
            first.sig,
            second.gives,
            first.reduction,
            first.factor * second.factor AS factor,
            second.max,
            second.min,
            second.mean,
            second.norm,
            second.content,
            2 AS calls,
            first.axes AS first_axes
        FROM reductions_single AS first
        JOIN reductions_single AS second
            ON second.rank = first.rank AND second.sig = first.gives AND NOT list_has_any(second.axes, first.axes)
        WHERE replace(second.reduction, 'avg', 'sum') = replace(first.reduction, 'avg', 'sum')
    )
SELECT DISTINCT ON (rank, axes, sig) * EXCLUDE (calls, first_axes)
FROM found
ORDER BY rank, axes, sig, calls, first_axes
