-- is_recomputation(frames): whether a call stack, innermost frame first, is that of activation recomputation: PyTorch's
--   recompute_fn (non-reentrant), or a backward that torch.autograd.Function calls and that runs a forward again
--   (reentrant, Megatron, MindSpeed). The backward of any other Function computes gradients.
CREATE OR REPLACE MACRO is_recomputation(frames) AS
    len(list_filter(
        frames,
        lambda frame, place:
            regexp_matches(frame, 'torch/utils/checkpoint\.py, line \d+, in recompute_fn,')
            OR (
                regexp_matches(frame, ', in backward,|megatron.*, in checkpoint_function_backward,')
                AND (
                    coalesce(contains(frames[place + 1], 'torch/autograd/function.py, line '), false)
                    OR coalesce(contains(frames[place + 2], 'torch/autograd/function.py, line '), false)
                )
                AND (
                    regexp_matches(frame, '(?i)checkpoint')
                    OR len(list_filter(
                        frames[:place - 1], lambda called: regexp_matches(called, ', in (\w*forward\w*|_call_impl),')
                    )) > 0
                )
            )
    )) > 0
