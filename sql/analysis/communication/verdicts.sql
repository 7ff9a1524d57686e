-- verdicts: for how many results each law holds, breaks, or cannot be decided.
-- grain: one law, verdict and reason
-- parameters: the table laws
SELECT
    law,
    verdict,
    seen_by,
    -- the rank in a reason would make a row of each rank
    regexp_replace(if(verdict = 'cannot tell', reason, NULL), 'rank \d+', 'a rank') AS reason,
    count(*) AS results,
    max(error) AS largest_error
FROM laws
GROUP BY law, verdict, seen_by, 4
ORDER BY verdict, law, seen_by, reason
