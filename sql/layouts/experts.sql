-- experts: whether a module of the run is one of several experts.
-- grain: one row if so, otherwise none
-- parameters: $run, $step
SELECT 1
FROM ops
WHERE run = $run AND step = $step AND kind = 'module' AND regexp_matches(api, '\bexperts\.[0-9]')
LIMIT 1
