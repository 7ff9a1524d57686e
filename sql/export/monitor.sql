-- monitor: the series of a run as the rows of the csv files of msprobe's monitor.
-- grain: one tensor or number at one point of a step; a line of a file
-- parameters: run
-- prefix begins the file's name. A name is that of msprobe: input or output behind the module, and _0 for the place [0].
-- zeros is rounded to float32, as there.
-- kernel_norm and sr are msprobe's names of the spectral norm and of the root of the stable rank.
WITH
    places AS (
        FROM (VALUES
            ('input', 'actv', '.input'),
            ('output', 'actv', '.output'),
            ('input_gradient', 'actv_grad', '.input'),
            ('output_gradient', 'actv_grad', '.output'),
            ('gradient_unreduced', 'grad_unreduced', ''),
            ('gradient', 'grad_reduced', ''),
            ('parameter', 'param_origin', ''),
            ('parameter_updated', 'param_updated', ''),
            ('moment1', 'exp_avg', ''),
            ('moment2', 'exp_avg_sq', ''),
            ('agreement', 'other', ''),
            ('attention', 'attention_hook', '.attention'),
            ('linear', 'linear_hook', '.linear'),
            ('router_weight', 'moe_router_weight_hook', '.moe_router'),
            ('router_logit', 'moe_router_logit_hook', '.moe_router')
        ) AS places (point, prefix, behind)
    ),
    named AS (
        SELECT
            * REPLACE (if(point = 'agreement', point, metric) AS metric),
            regexp_extract(name, '^(?:(\d+):)?', 1) AS stage,
            regexp_replace(name, '^\d+:', '') AS in_model,
            regexp_extract(in_model, '((?:\[[^]]*\])*)$', 1) AS slot
        FROM series
        JOIN places USING (point)
        WHERE run = $run
    ),
    measured AS (
        SELECT
            *,
            CASE behind
                WHEN '' THEN in_model
                ELSE left(in_model, len(in_model) - len(slot)) || behind || translate(slot, '[]''', '_')
            END AS line_name
        FROM named
    )
SELECT
    rank,
    prefix,
    if(stage = '', 0, stage::INTEGER) AS vpp_stage,
    line_name AS name,
    step,
    micro_step,
    any_value(value) FILTER (WHERE metric IN ('norm', 'agreement')) AS norm,
    any_value(value) FILTER (WHERE metric IN ('mean', 'agreement')) AS mean,
    any_value(value) FILTER (WHERE metric IN ('min', 'agreement')) AS min,
    any_value(value) FILTER (WHERE metric IN ('max', 'agreement')) AS max,
    any_value(value::FLOAT) FILTER (WHERE metric = 'zeros')::DOUBLE AS zeros,
    any_value(value) FILTER (WHERE metric = 'nans') AS nans,
    any_value(value) FILTER (WHERE metric = 'entropy') AS entropy,
    any_value(value) FILTER (WHERE metric = 'softmax_max') AS softmax_max,
    sqrt(any_value(value) FILTER (WHERE metric = 'stable_rank')) AS sr,
    any_value(value) FILTER (WHERE metric = 'spectral_norm') AS kernel_norm,
    any_value(value) FILTER (WHERE metric = 'similarity') AS router_weight_similarity,
    any_value(value) FILTER (WHERE metric = 'expert_entropy') AS per_token_expert_entropy,
    any_value(text) FILTER (WHERE metric = 'shape') AS shape,
    any_value(text) FILTER (WHERE metric = 'dtype') AS dtype
FROM measured
GROUP BY ALL
ORDER BY rank, prefix, step, vpp_stage, micro_step NULLS FIRST, name
