-- sequence: whether the ranks' data is shorter than golden's along the second axis, and not along the first.
-- The data is the first input of integers, or where the model is given none, the first input.
-- grain: one row
-- parameters: $run, $step, $golden, $golden_step, $golden_rank
WITH first AS (
    SELECT run, arg_min(shape, (NOT regexp_matches(lower(dtype), 'int'), row, rank)) AS shape
    FROM tensors
    WHERE
        ((run = $run AND step = $step) OR (run = $golden AND step = $golden_step AND rank = $golden_rank))
        AND role = 'input'
        AND kind = 'tensor'
        AND len(shape) > 1
        AND op LIKE '%forward%'
        AND op NOT LIKE 'Distributed.%'
    GROUP BY run
)
SELECT ours.shape[1] = theirs.shape[1] AND ours.shape[2] < theirs.shape[2] AS is_cut
FROM first AS ours, first AS theirs
WHERE ours.run = $run AND theirs.run = $golden
