-- is_finding(difference, outcome, verdict): whether a row of results belongs in a list of differences: the two sides
-- differ, even if by noise only, or one side lacks the row. Skipped rows do not.
CREATE OR REPLACE MACRO is_finding(difference, outcome, verdict) AS
coalesce(difference <> 'equal', outcome = 'unmatched') AND outcome <> 'skipped' AND verdict <> 'skipped'
