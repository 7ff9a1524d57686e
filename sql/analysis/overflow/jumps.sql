-- jumps: the ops whose largest output norm is more than 100 times their largest input norm.
-- grain: one op
-- parameters: $run; the view tensors
-- A norm that overflows (float16) while every element is finite is replaced by the largest element, which it is at
-- least. Without an input norm above 0, the output's norm itself counts, as in msprobe 26.2.
WITH
    norms AS (
        SELECT
            step,
            rank,
            seq,
            role,
            if(isfinite(norm), norm, greatest(abs(max), abs(min))) AS norm
        FROM tensors
        WHERE
            run = $run
            AND role IN ('input', 'output')
            AND norm IS NOT NULL
            AND isfinite(max)
            AND isfinite(min)
    )
SELECT
    step,
    rank,
    seq,
    max(norm) FILTER (role = 'input') AS norm_in,
    max(norm) FILTER (role = 'output') AS norm_out,
    if(norm_in > 0, norm_out / norm_in, norm_out) AS jump
FROM norms
GROUP BY step, rank, seq
HAVING jump > getvariable('overflow_jump')
