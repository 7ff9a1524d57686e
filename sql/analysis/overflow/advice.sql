-- advice: what to check first where NaN or inf is born, by what the op computes.
-- grain: one kind of op and cause; an op gets the matching row with the smallest place
-- direction, name, dtype: regular expressions that must match completely; kinds: the output must have one of these
--   (sql/analysis/overflow/kinds.sql), 15 for any; origin as in sql/analysis/overflow/origins.sql
SELECT *
FROM (VALUES
    (
        1, 'unseen', '.*', '.*', '.*', 15,
        'No recorded op made it. Check what was loaded or computed before the dump began: the batch, the '
        || 'checkpoint, buffers. Dump a longer list of ops, or from an earlier step.'
    ),
    (
        2, 'born', '.*', '.*', '.*', 8,
        'Every element is finite; only the mean that the dump computed overflowed. This is harmless, but the '
        || 'values are near the limit of the dtype.'
    ),
    (
        3, 'born', 'parameters_grad', '.*', '.*', 15,
        'The gradient of a parameter overflows while it is summed. Check gradient clipping, loss scale '
        || 'and accumulation dtype.'
    ),
    (
        4, 'born', 'backward', '(r?sqrt|norm|linalgnorm|vectornorm|linalgvectornorm|cdist|dist|r?pow).*', '.*', 15,
        'The slope of a root or norm is infinite at 0. Add a small constant under the root, or keep zeros '
        || 'out of it (torch.where on the input, not on the result).'
    ),
    (
        5, 'born', 'backward', '(log|log2|log10|log1p|logsumexp|logit|xlogy).*', '.*', 15,
        'The slope of a logarithm is 1/x: infinite at 0. Clamp its input from below, or take log_softmax or '
        || 'logsigmoid instead of the log of a probability.'
    ),
    (
        6, 'born', 'backward', '(r?div|r?truediv|reciprocal|truedivide|floordiv).*', '.*', 15,
        'The slope of a quotient divides by the square of the divisor. Keep the divisor away from 0.'
    ),
    (
        7, 'born', 'backward', '(where|maskedfill|select).*', '.*', 15,
        'The branch that was not chosen still gets a gradient, and 0 times inf is NaN. Replace the input of '
        || 'that branch by a harmless value before the op that overflows.'
    ),
    (
        8, 'born', 'backward', '.*(layernorm|rmsnorm|batchnorm|groupnorm|instancenorm|normalize).*', '.*', 15,
        'The gradient of a normalisation divides by the standard deviation. If a row is constant, only '
        || 'epsilon remains: check that the dtype can represent it.'
    ),
    (
        9, 'born', 'backward', '.*', '.*', 15,
        'The forward call was finite, so the gradient overflows or meets 0 times inf. Lower the loss scale, '
        || 'check gradient clipping, and check the op''s slope at the extremes of its forward input.'
    ),
    (
        10, 'born', '.*', '(log|log2|log10|logit|xlogy).*', '.*', 15,
        'The logarithm of 0 is -inf and of a negative number NaN. Clamp the input from below, add a small '
        || 'constant, or use log_softmax or logsigmoid on the scores.'
    ),
    (
        11, 'born', '.*', 'log1p.*', '.*', 15,
        'log1p of -1 is -inf, below that NaN. Clamp the input.'
    ),
    (
        12, 'born', '.*', '(r?div|r?truediv|reciprocal|truedivide|floordiv|remainder|fmod).*', '.*', 15,
        'Division by 0, or by something so small that the quotient overflows. Check the smallest divisor, '
        || 'and add an epsilon that the dtype can represent.'
    ),
    (
        13, 'born', '.*', 'r?sqrt.*', '.*', 15,
        'The root of a negative number is NaN, and 1/sqrt of 0 is inf. A variance below 0 comes from '
        || 'rounding: clamp at 0 and add epsilon under the root.'
    ),
    (
        14, 'born', '.*', '(exp|exp2|expm1|sinh|cosh|softplus|logaddexp).*', '.*', 15,
        'The exponential overflows: above 11 in float16, above 88 in float32 and bfloat16. Subtract the '
        || 'largest value first, or use softmax or logsumexp.'
    ),
    (
        15, 'born', '.*', '.*(attention|flashattn).*', '.*', 15,
        'Check for rows that are masked completely (softmax over only -inf is NaN), the scale of '
        || 'the scores, and masks that are -inf in one implementation and a large number in the other.'
    ),
    (
        16, 'born', '.*', '.*softmax.*', '.*', 15,
        'A row of only -inf, or with an inf, becomes NaN. Check for rows that are masked '
        || 'completely and for scores that overflowed earlier.'
    ),
    (
        17, 'born', '.*', '.*(crossentropy|nllloss|bceloss|binarycrossentropy|kldiv|ctcloss).*', '.*', 15,
        'A loss takes the logarithm of a probability that is 0, or divides by a count of 0 (every target '
        || 'ignored). Use the variant that takes scores, and check the targets.'
    ),
    (
        18, 'born', '.*', '.*(layernorm|rmsnorm|batchnorm|groupnorm|instancenorm|normalize).*', '.*', 15,
        'A normalisation divides by a standard deviation of 0, or a square overflows. Check '
        || 'epsilon (1e-8 is 0 in float16) and compute the variance in float32.'
    ),
    (
        19, 'born', '.*', '(allreduce|reduce|reducescatter|reducescattertensor|reducescatterbase|.*coalesced).*', '.*', 15,
        'All ranks sent finite numbers and their sum overflowed. Reduce in float32, divide before the sum, '
        || 'or lower the loss scale.'
    ),
    (
        20, 'born', '.*', '(i?recv|broadcast|allgather.*|gather|scatter|alltoall.*|batchisendirecv)', '.*', 15,
        'The received data is not what was sent. Check for a wrong peer or tag, a buffer that is read before '
        || 'wait(), or one that is written at the same time.'
    ),
    (
        21, 'born', '.*', '(to|type|half|bfloat16|float|cast|copy|astype|typeas)', '.*', 15,
        'The value does not fit the new dtype: float16 ends at 65504. Use bfloat16 or float32 here, or '
        || 'scale before the cast.'
    ),
    (
        22, 'born', '.*', '(.*matmul|b?mm|addmm|baddbmm|dense|einsum|conv.*|.*linear|dot|mv)', '.*16', 15,
        'The sum of products leaves the range of float16 (65504). Scale the inputs before (attention: '
        || 'divide the query by sqrt(d)), accumulate in float32, or use bfloat16.'
    ),
    (
        23, 'born', '.*', '(.*matmul|b?mm|addmm|baddbmm|dense|einsum|conv.*|.*linear|dot|mv)', '.*', 15,
        'Sums of products overflow only if the inputs are huge, or if the kernel reads memory that was '
        || 'never written. Check the size of the inputs, then repeat the op on the CPU with them; if it '
        || 'is finite there, suspect the kernel.'
    ),
    (
        24, 'born', '.*', '(square|r?pow|prod|cumprod|norm|var|std|linalgnorm|vectornorm|clipgradnorm).*', '.*', 15,
        'Powers overflow quickly, and the variance of one element is NaN. Check the '
        || 'largest input, and compute in float32.'
    ),
    (
        25, 'born', '.*', '(acos|asin|atanh|acosh|erfinv)', '.*', 15,
        'The function is not defined for all numbers. Clamp the input.'
    ),
    (
        26, 'born', '.*', '(mul|rmul|imul|multiply|scale)', '.*', 1,
        '0 times inf is NaN. Find where the inf comes from, or replace the product by where().'
    ),
    (
        27, 'born', '.*', '(add|radd|iadd|sub|rsub|isub|sum|mean|cumsum|addcmul|addcdiv|lerp)', '.*16', 15,
        'A sum leaves the range of float16 (65504). Add in float32 or bfloat16.'
    ),
    (
        28, 'born', '.*', '(step|adam.*|sgd|lamb|foreach.*|addcdiv)', '.*', 15,
        'The update of the optimizer overflows. Check the gradient and the second moment, '
        || 'epsilon, and whether the scaler should have skipped this step.'
    ),
    (
        29, 'born', '.*', '(empty|newempty).*', '.*', 15,
        'This memory was never written. Something reads it before it is filled.'
    ),
    (
        30, 'born', '.*', '.*', '.*16', 15,
        'The op''s inputs are finite and the dtype is narrow. Repeat this op in float32; if it is finite '
        || 'there, keep it in float32.'
    ),
    (
        31, 'born', '.*', '.*', '.*', 15,
        'The op''s inputs are finite. Repeat it alone with the same inputs, on this device and on the CPU: '
        || 'either the inputs are outside its domain, or the kernel is faulty.'
    )
) AS advice (place, origin, direction, name, dtype, kinds, advice)
