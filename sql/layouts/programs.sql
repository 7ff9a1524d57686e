-- programs: what each rank runs, in one text: equal for ranks that call the same ops in the same order.
-- grain: one rank
-- parameters: $run, $step
SELECT
    rank,
    md5(string_agg(concat_ws(' ', op, parent), chr(10) ORDER BY seq)) AS program
FROM ops
WHERE run = $run AND step = $step
GROUP BY rank
ORDER BY rank
