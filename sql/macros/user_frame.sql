-- user_frame(frames): the innermost frame of a stack outside the framework's code; NULL if there is none.
CREATE OR REPLACE MACRO user_frame(frames) AS
list_filter(
    frames,
    lambda frame: NOT regexp_matches(frame, '(site-packages|dist-packages|package)/(torch|torch_npu|mindspore|mindspeed|msprobe|ptdbg_ascend)/|/ptdbg_ascend/(src|hook_module)/')
)[1]
