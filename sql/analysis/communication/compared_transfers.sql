-- compared_transfers: the transfers of a target, as far as golden's record can be held against them.
-- grain: one transfer of one rank
-- parameters: $golden (its run); the view dumps; the table transfers
-- asynchronous: of the target or of golden, which only lakeprobe records when the results have arrived
SELECT
    * REPLACE (
        asynchronous
        OR (
            is_waited_for
            AND EXISTS (FROM dumps WHERE dumps.run = $golden AND dumps.format <> 'lakeprobe')
        ) AS asynchronous
    )
FROM transfers
