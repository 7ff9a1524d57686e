-- judged: what each standard says of a measured leaf, and the status by the standard that was asked for.
-- grain: one measured leaf
-- parameters: $standard: rounding, pre_check, table, benchmark, absolute, binary, ulp, thousandth or accumulative;
--   the tables measured (measures with api, dtype, reference_dtype, has_float8, is_deterministic, problem),
--   precisions, standards, rounding_classes and quantised (schemas/data)
WITH
chosen AS (
    SELECT
        m.*,
        rounding.* EXCLUDE (class),
        limits.balance_limit,
        q.api IS NOT NULL AND m.max_abs_error IS NOT NULL AND m.typical_error IS NULL AS is_quantised,
        CASE
            WHEN m.problem IS NOT NULL THEN NULL
            WHEN m.typical_error IS NULL AND m.max_ulp IS NULL AND m.cosine_note IS NULL THEN 'binary'
            WHEN $standard = 'table' THEN table_standard(named.standard, m.dtype, m.has_float8)
            ELSE $standard
        END AS standard
    FROM measured AS m
    LEFT JOIN precisions AS limits ON limits.dtype = m.dtype
    LEFT JOIN standards AS named ON named.api = m.api
    LEFT JOIN rounding_classes AS kind ON kind.api = m.api
    LEFT JOIN rounding_limits AS rounding ON rounding.class = coalesce(if(m.direction = 'backward', kind.backward, kind.forward), 'other')
    LEFT JOIN quantised AS q ON q.api = m.api
),
statuses AS (
    SELECT
        *,
        CASE
            WHEN standard IS NULL THEN NULL
            WHEN standard = 'binary' AND is_quantised THEN if(max_abs_error <= 1, 'pass', 'error')
            WHEN standard = 'rounding' THEN rounding_status(chosen)
            ELSE standard_status(chosen, standard)
        END AS measured_status
    FROM chosen
)
SELECT
    * EXCLUDE (most_signed_zeros, most_ulp, most_typical, most_largest, balance_limit, is_quantised, measured_status),
    CASE
        WHEN problem IS NOT NULL THEN 'skip'
        WHEN standard IS NULL THEN 'skip'
        WHEN NOT is_deterministic AND measured_status = 'pass' THEN 'warning'
        ELSE measured_status
    END AS status
FROM statuses
ORDER BY place
