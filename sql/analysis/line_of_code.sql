-- line_of_code: the user's line of code that a call stack comes from.
-- grain: one call stack
-- parameters: $step, $rank, $stack; the view stacks
SELECT user_frame(frames) AS code
FROM stacks
WHERE step = $step AND rank = $rank AND stack = $stack
