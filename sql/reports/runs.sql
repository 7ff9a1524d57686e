-- runs: what each run of the lake holds.
-- grain: one run
-- incomplete: how many of its units are incomplete because collecting ended too early; NULL for none
-- perturbed: the share by which the parameters were perturbed before the run (collect's option perturb), or NULL
-- sources: the folders that its units were read from
-- parameters: the view dumps
SELECT
    run,
    array_to_string(list(DISTINCT format ORDER BY format), ', ') AS format,
    any_value(framework) AS framework,
    array_to_string(list(DISTINCT task ORDER BY task), ' ') AS task,
    array_to_string(list(DISTINCT level ORDER BY level), ' ') AS level,
    count(DISTINCT step) AS steps,
    count(DISTINCT rank) AS ranks,
    nullif(count(*) FILTER (NOT complete), 0) AS incomplete,
    nullif(max(TRY_CAST(head ->> '$.settings.perturb' AS DOUBLE)), 0) AS perturbed,
    sum(ops)::BIGINT AS ops,
    sum(tensor_rows)::BIGINT AS tensor_rows,
    sum(contents)::BIGINT AS contents,
    format_bytes(sum(content_bytes)::BIGINT) AS content_size,
    list(DISTINCT source ORDER BY source) AS sources
FROM dumps
GROUP BY run
ORDER BY run
