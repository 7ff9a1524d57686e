-- nothing_differs: whether the two runs are equal as far as their dumps tell, so that no op can stand out.
-- grain: one row
-- parameters: the tables comparison_kind, paired, differences and verdicts; the variable cross_framework
-- Two implementations always round differently, so they are never equal in this sense.
-- Parameters of checkpoints and settings are not ops, of which one could add an error.
SELECT
    (SELECT dumped IN ('parameters', 'settings') FROM comparison_kind)
    OR getvariable('cross_framework') = 0
    AND NOT EXISTS (FROM differences WHERE difference <> 'equal')
    AND NOT EXISTS (FROM verdicts WHERE verdict NOT IN ('pass', 'skipped'))
    AND NOT EXISTS (FROM paired WHERE target_row IS NULL OR golden_row IS NULL) AS is_equal
