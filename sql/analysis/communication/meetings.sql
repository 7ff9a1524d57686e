-- meetings: the meetings of a run, numbered, because later stages join by a number faster than by the text.
-- grain: one meeting
-- parameters: after transfers
SELECT
    CAST(row_number() OVER (ORDER BY step, meeting) AS INTEGER) AS number,
    step,
    meeting
FROM (SELECT DISTINCT step, meeting FROM transfers WHERE meeting IS NOT NULL)
