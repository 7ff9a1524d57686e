-- reductions_in_turn: reductions over one axis, and over one after another.
-- grain: one value of a rank, and set of axes
-- parameters: after reductions_single
SELECT *
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
    second.content
FROM reductions_single AS first
JOIN reductions_single AS second
    ON second.rank = first.rank AND second.sig = first.gives AND NOT list_has_any(second.axes, first.axes)
