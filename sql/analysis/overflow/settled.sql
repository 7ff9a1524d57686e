-- settled: the leaves with NaN or inf, each with the reason that excuses it, as far as the leaf itself shows one.
-- grain: one leaf
-- parameters: none; the tables overflow_leaves, overflow_golden, overflow_producers, overflow_ignored,
--   overflow_fillers, transfers
-- excuse: NULL if nothing excuses it yet; sql/analysis/overflow/deliberate.sql follows the values that such a leaf was
--   made of. Similarity to a mask excuses no leaf that is finite in golden, and none that a recorded op output.
WITH
    outputs AS (
        SELECT step, rank, seq, bool_or(side = 'out') AS has_bad_output
        FROM overflow_leaves
        GROUP BY ALL
    ),
    calls AS (
        SELECT step, rank, seq, bool_or(overwritten) AS overwritten
        FROM transfers
        GROUP BY ALL
    )
SELECT
    leaf.*,
    producers.producer,
    fillers.name IS NOT NULL AS is_filler,
    CASE
        WHEN leaf.side = 'out' AND overwritten THEN 'the record of another call'
        WHEN ignored.name IS NOT NULL AND NOT (ignored.unless_passed_on AND has_bad_output) THEN ignored.reason
        WHEN (golden.kinds & leaf.kinds) = leaf.kinds THEN 'the same in golden'
        WHEN leaf.side = 'out' THEN NULL
        WHEN leaf.kind = 'scalar' AND (leaf.kinds <> 1 OR fillers.takes_nan) THEN 'an argument of the call'
        WHEN producers.producer IS NOT NULL OR golden.kinds IS NOT NULL THEN NULL
        WHEN leaf.max = leaf.min AND (leaf.kinds = 4 OR (leaf.kinds = 2 AND is_filler)) THEN 'a constant'
        WHEN leaf.kinds = 4 AND leaf.max = 0 THEN 'a mask of 0 and -inf'
        WHEN leaf.kinds = 4 AND regexp_matches(leaf.name, 'softmax|attention|logsumexp|crossentropy')
            THEN 'a mask, which softmax turns into 0'
    END AS excuse
FROM overflow_leaves AS leaf
JOIN outputs USING (step, rank, seq)
LEFT JOIN calls USING (step, rank, seq)
LEFT JOIN overflow_producers AS producers USING (step, rank, row)
LEFT JOIN overflow_golden AS golden USING (step, rank, row)
LEFT JOIN overflow_fillers AS fillers ON fillers.name = leaf.name
LEFT JOIN overflow_ignored AS ignored
    ON ignored.name IN (leaf.exact_name, leaf.name)
    AND (NOT ignored.is_communication OR calls.seq IS NOT NULL)
    AND (ignored.role = 'input') = (leaf.side = 'in')
    AND (leaf.slot = ignored.slot OR starts_with(leaf.slot, ignored.slot || '.'))
