-- settings: the findings of each setting that two runs begin with.
-- grain: one row of the comparison (a pair, or a setting of one side)
-- other_golden: for a tensor, the setting of golden that has its digest: of two batches that changed places each has
--   what the other should have.
WITH
    named AS (
        SELECT
            p.*,
            coalesce(t.op, g.op) AS name,
            d.difference,
            m.max_diff,
            m.min_diff,
            m.norm_relative,
            CASE target_kind WHEN 'tensor' THEN 'a tensor' WHEN 'null' THEN 'None' ELSE coalesce(target_value, target_kind) END
                AS target_text,
            CASE golden_kind WHEN 'tensor' THEN 'a tensor' WHEN 'null' THEN 'None' ELSE coalesce(golden_value, golden_kind) END
                AS golden_text
        FROM paired AS p
        LEFT JOIN target_ops AS t ON t.seq = p.target_seq
        LEFT JOIN golden_ops AS g ON g.seq = p.golden_seq
        LEFT JOIN differences AS d ON d.row = p.row
        LEFT JOIN metrics AS m ON m.row = p.row
    ),
    judged AS (
        SELECT named.row, arg_min(severities.severity, severities.place) AS severity
        FROM named
        JOIN severities ON regexp_matches(named.name, severities.pattern)
        GROUP BY named.row
    ),
    holders AS (
        SELECT golden_digest AS digest, golden_shape AS shape, arg_min(name, golden_row) AS name
        FROM named
        WHERE golden_digest IS NOT NULL
        GROUP BY ALL
    ),
    found AS (
        SELECT
            named.row,
            coalesce(judged.severity, 'warning') AS severity,
            target_row IS NOT NULL AND golden_row IS NOT NULL AS matched,
            CASE
                WHEN target_row IS NULL THEN 'only in golden: ' || golden_text
                WHEN golden_row IS NULL THEN 'only in the target: ' || target_text
                WHEN difference = 'equal' THEN NULL
                WHEN target_kind <> 'tensor' OR golden_kind <> 'tensor'
                    THEN target_text || ' against ' || golden_text
                WHEN holders.name IS NOT NULL AND holders.name <> named.name THEN 'has what golden has as ' || holders.name
                WHEN target_dtype <> golden_dtype THEN 'dtype ' || target_dtype || ' against ' || golden_dtype
                WHEN target_shape <> golden_shape THEN format('shape {} against {}', target_shape, golden_shape)
                WHEN greatest(abs(max_diff), abs(min_diff)) > 0
                    THEN format('its values differ; max and min by up to {:.3g}', greatest(abs(max_diff), abs(min_diff)))
                WHEN norm_relative > 0 THEN format('its values differ; the norm by {:.2g} of itself', norm_relative)
                ELSE 'its values differ; max, min and norm do not'
            END AS text
        FROM named
        LEFT JOIN judged ON judged.row = named.row
        LEFT JOIN holders ON holders.digest = named.target_digest AND holders.shape = named.target_shape
    )
SELECT
    row,
    if(matched, 'compared', 'unmatched') AS outcome,
    CASE
        WHEN text IS NULL THEN 'pass'
        WHEN matched OR severity = 'error' THEN severity
        ELSE 'unmatched'
    END AS verdict,
    if(text IS NULL, [], [severity || ': ' || text]) AS messages
FROM found
