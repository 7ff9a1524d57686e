-- transfer_groups: the groups of ranks that arguments name. A job has few groups, and many leaves name them.
-- grain: one distinct text of a group's leaf
-- parameters: the table transfer_arguments
SELECT
    extra AS group_leaf,
    extra->>'group_id' AS group_id,
    TRY_CAST(extra->>'group_ranks' AS INTEGER[]) AS members
FROM (SELECT DISTINCT extra FROM transfer_arguments WHERE kind = 'object' AND section <> 'output' AND extra IS NOT NULL)
