-- step_rows: the rows of one table of all units of a step, for the file of a compacted step.
-- grain: one row of the table
-- order: by rank, and within a unit as its file has it
-- parameters: step_files; the macro columns_of_step, which is their schema with the column rank; the table step_units
--   (filename, of_rank, step, rank), where of_rank is NULL for a file that holds one unit only
SELECT
    units.step,
    units.rank,
    files.* EXCLUDE (rank, filename, file_row_number)
FROM
    read_parquet(
        getvariable('step_files'),
        schema = columns_of_step(),
        filename = true,
        file_row_number = true
    ) AS files
JOIN step_units AS units
    ON files.filename = units.filename AND files.rank IS NOT DISTINCT FROM units.of_rank
ORDER BY units.rank, files.file_row_number
