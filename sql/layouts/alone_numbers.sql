-- alone_numbers: the leaves of ops that golden alone has, as leaves of the whole.
-- grain: one leaf
-- parameters: after alone_leaves, beside
SELECT
    leaf,
    op AS whole_op,
    slot,
    repeat,
    role,
    kind,
    value AS number,
    CAST(NULL AS VARCHAR) AS extra,
    false AS is_bool,
    false AS is_whole,
    false AS is_unknown
FROM alone_leaves
