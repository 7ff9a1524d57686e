-- shares: the transfers, each with the number of its meeting in place of its text.
-- grain: one transfer of one rank (see transfers)
-- parameters: after transfers and meetings
SELECT
    transfers.* EXCLUDE (partners, absent, group_id) REPLACE (meetings.number AS meeting)
FROM transfers
JOIN meetings USING (step, meeting)
