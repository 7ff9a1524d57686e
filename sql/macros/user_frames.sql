-- user_frames(frames): the frames of a stack outside the framework's code, innermost first.
CREATE OR REPLACE MACRO user_frames(frames) AS
list_filter(
    frames,
    lambda frame: NOT regexp_matches(frame, '(site-packages|dist-packages|package)/(torch|torch_npu|mindspore|mindspeed|msprobe|ptdbg_ascend)/|/ptdbg_ascend/(src|hook_module)/')
)
