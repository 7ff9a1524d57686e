-- signs: how many signs of each gradient are the same in two monitored runs.
-- grain: one parameter in one step on one rank; and one row with the name summary for a step and rank
-- parameters: golden, run: the names of both
-- similarity: the share of elements that are above 0 in both runs or in neither, in all micro steps; the summary is of all
--   elements
WITH
    counted AS (
        SELECT
            target.rank,
            target.step,
            target.name,
            sum(target.value)::BIGINT AS elements,
            elements - sum(bit_count(xor(target.signs::BIT, golden.signs::BIT)))::BIGINT AS same
        FROM series AS target
        JOIN series AS golden
            ON golden.run = $golden
            AND golden.rank = target.rank
            AND golden.step = target.step
            AND golden.micro_step IS NOT DISTINCT FROM target.micro_step
            AND golden.name = target.name
            AND golden.point = target.point
            AND golden.metric = 'signs'
            AND golden.value = target.value
        WHERE target.run = $run AND target.metric = 'signs' AND target.point = 'gradient' AND target.value > 0
        GROUP BY target.rank, target.step, target.name
    ),
    summed AS (
        SELECT
            rank,
            step,
            name,
            false AS is_summary,
            elements,
            same
        FROM counted
        UNION ALL
        SELECT
            rank,
            step,
            'summary',
            true,
            sum(elements)::BIGINT,
            sum(same)::BIGINT
        FROM counted
        GROUP BY rank, step
    )
SELECT
    rank,
    step,
    name,
    is_summary,
    elements,
    same,
    same / elements AS similarity,
    similarity - lag(similarity) OVER (PARTITION BY rank, name, is_summary ORDER BY step) AS change
FROM summed
ORDER BY rank, step, is_summary, name
