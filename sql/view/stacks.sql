-- stacks: the call stacks of one (step, rank), innermost frame first.
-- grain: one call stack
-- parameters: $run, $step, $rank; the view stacks
-- code: the user's own line
SELECT stack, frames, user_frame(frames) AS code
FROM stacks
WHERE run = $run AND step = $step AND rank = $rank
ORDER BY stack
