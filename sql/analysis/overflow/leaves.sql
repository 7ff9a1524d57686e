-- leaves: the leaves of a run with NaN or inf, as far as their statistics show.
-- grain: one leaf
-- parameters: $run; the views tensors, ops; the macro nonfinite_kinds
-- kinds: see sql/analysis/overflow/kinds.sql
-- name: what the op computes, in one spelling for both frameworks, in-place variants and modules: the API's last part,
--   or the module's class, in lower case without underscores; exact_name keeps the underscore of an in-place op
WITH
    found AS (
        SELECT
            step,
            rank,
            row,
            seq,
            slot,
            role,
            if(role IN ('input', 'parameters'), 'in', 'out') AS side,
            kind,
            dtype,
            coalesce(list_aggregate(shape, 'product'), 1) AS elements,
            if(kind = 'scalar', value::DOUBLE, max) AS max,
            if(kind = 'scalar', value::DOUBLE, min) AS min,
            if(kind = 'scalar', value::DOUBLE, mean) AS mean
        FROM tensors
        WHERE
            run = $run
            AND (
                (kind = 'tensor' AND (NOT isfinite(max) OR NOT isfinite(min) OR NOT isfinite(mean)))
                OR (kind = 'scalar' AND type <> 'str' AND value IN ('NaN', 'Infinity', '-Infinity'))
            )
    ),
    names AS (
        SELECT
            step,
            rank,
            seq,
            lower(coalesce(module_class, split_part(api, '.', -1))) AS last_part,
            regexp_replace(regexp_replace(last_part, '^_+|__+$', '', 'g'), '_+(.)', '\1', 'g') AS exact_name
        FROM ops
        WHERE run = $run
    )
SELECT
    found.*,
    nonfinite_kinds(max, min, mean) AS kinds,
    replace(exact_name, '_', '') AS name,
    exact_name
FROM found
JOIN names USING (step, rank, seq)
