-- stacks: the call stacks of one (step, rank), innermost frame first.
-- grain: one call stack
-- parameters: $run, $step, $rank; the view stacks
-- own: the frames of the user's code; code: the innermost of them
SELECT stack, frames, user_frames(frames) AS own, user_frame(frames) AS code
FROM stacks
WHERE run = $run AND step = $step AND rank = $rank
ORDER BY stack
