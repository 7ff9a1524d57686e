-- step_rows: the rows of one table of the units of a step or rank, for the file of a compacted one.
-- grain: one row of the table
-- order: by step and rank, and within a unit as its file has it
-- parameters: step_files; the macro columns_of_step, which is their schema with the columns step and
--   rank; the table step_units (filename, is_held, step, rank), where is_held says that the file holds many units
SELECT
    units.step,
    units.rank,
    files.* EXCLUDE (step, rank, filename, file_row_number)
FROM
    read_parquet(
        getvariable('step_files'),
        schema = columns_of_step(),
        filename = true,
        file_row_number = true
    ) AS files
JOIN step_units AS units
    ON files.filename = units.filename
    AND (NOT units.is_held OR (files.step = units.step AND files.rank = units.rank))
ORDER BY units.step, units.rank, files.file_row_number
