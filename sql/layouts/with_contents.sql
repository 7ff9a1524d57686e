-- with_contents: the ranks' tensors that leaves of the whole with contents are made of, and where they lie.
-- grain: one tensor of one rank
-- Weights come first, gradients last: the order of a weight's rows is that of what is computed with it.
-- parameters: $run, $step, $golden, $golden_step, $golden_rank; after chosen, merged
WITH
    places AS (
        SELECT rank, content, reference
        FROM tensor_references
        WHERE run = $run AND step = $step
    ),
    theirs AS (
        SELECT golden.leaf, found.reference
        FROM golden_leaves AS golden
        JOIN tensor_references AS found
            ON found.content = golden.content
            AND found.run = $golden
            AND found.step = $golden_step
            AND found.rank = $golden_rank
    )
SELECT
    leaf,
    chosen.places,
    chosen.content,
    places.reference,
    merged.ways,
    merged.dimensions,
    merged.blocks,
    chosen.factor,
    theirs.reference AS golden
FROM chosen
JOIN merged
    USING (leaf)
JOIN places
    ON places.rank = chosen.rank AND places.content = chosen.content
JOIN cut_leaves
    USING (leaf)
LEFT JOIN theirs
    USING (leaf)
WHERE merged.reason IS NULL AND merged.has_all_contents
ORDER BY
    cut_leaves.role <> 'parameters', regexp_matches(cut_leaves.whole_op, '\.(backward|parameters_grad)'), leaf, chosen.rank, chosen.micro
