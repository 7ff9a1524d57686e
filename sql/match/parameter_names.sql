-- parameter_names: how names of parameters become those that all frameworks and wrappers share, rule by rule.
-- grain: one rule
-- parameters: $1 (schemas/data/parameter_names.csv)
SELECT
    place::INTEGER AS place,
    pattern,
    coalesce(replacement, '') AS replacement
FROM read_csv($1, header = true, all_varchar = true)
