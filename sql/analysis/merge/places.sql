-- places: the rows of a source, under the names that they have in a sheet.
-- grain: one row of one rank
-- parameters: the relation merge_table, which has msprobe's headers, and the place of each row in its rank
-- Some of msprobe's rows are named after a tensor file, which has `kwargs` where all others have `input`.
WITH
    named AS (
        SELECT
            rank,
            place,
            if("NPU Name" = 'N/A', "Bench Name", "NPU Name") AS written
        FROM merge_table
    )
SELECT
    rank,
    place,
    if(
        contains(written, '.kwargs.'),
        regexp_replace(written, '(\.(?:forward|backward)(?:\.\d+)?)\.kwargs\.', '\1.input.'),
        written
    ) AS name
FROM named
