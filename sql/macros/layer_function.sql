-- layer_function(frames): the framework's function through which the user or a module called an API, such as
--   clip_grad_norm_ for the ops in it; NULL for a direct call.
-- Frames go outwards from the op, up to the first frame of the user or the forward of a module. Frames of a dumping
-- tool, and those that any call may pass (hooks, wrappers), do not count.
CREATE OR REPLACE MACRO layer_function(frames) AS
list_reduce(
    frames,
    lambda found, frame: CASE
        WHEN NOT found.inside THEN found
        WHEN regexp_matches(frame, '^[^,]*(-packages/|package/|/MindSpeed/)(msprobe|ptdbg_ascend|mindspeed)/')
            THEN found
        WHEN
            NOT regexp_matches(frame, '^[^,]*(-packages|package)/(torch|torch_npu|mindspore)/')
            OR regexp_matches(frame, '^[^,]*, line \d+, in (forward|backward|construct),')
            THEN {'inside': false, 'name': found.name}
        WHEN
            regexp_matches(
                frame,
                '^[^,]*(torch/nn/modules/module|mindspore/nn/cell|mindspore/common/api|_check_jit_forbidden_api)\.py,'
                '|^[^,]*, line \d+, in (\w*wrap\w*|decorate_\w+|_use_grad|<\w+>),'
            )
            THEN found
        ELSE {'inside': true, 'name': regexp_extract(frame, '^[^,]*, line \d+, in ([^,]+),', 1)}
    END,
    {'inside': true, 'name': NULL::VARCHAR}
).name
