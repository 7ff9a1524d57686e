-- golden_leaves: golden's leaves of a step.
-- grain: one leaf
-- parameters: $golden, $golden_step, $golden_rank; no rows without golden
SELECT
    op AS whole_op,
    slot,
    repeat,
    kind,
    shape,
    value,
    max,
    min,
    mean,
    norm,
    content
FROM tensors
WHERE run = $golden AND step = $golden_step AND rank = $golden_rank
