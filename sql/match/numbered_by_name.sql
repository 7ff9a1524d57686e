-- numbered_by_name: the ops of a run, each with the number that pairs its calls: the one of its name where order pairs others.
-- grain: one op, in the order of the dump
-- parameters: the table ops of the run; moved_calls (match/moved_calls)
SELECT
    * REPLACE (if(direction = 'backward' AND (part, stem) IN (FROM moved_calls), coalesce(call, 0), call_number) AS call_number)
FROM ops
ORDER BY seq
