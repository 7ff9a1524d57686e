-- files_numbered: the rows of result files that a sheet has, under their headers.
-- grain: one row of one file
-- parameters: the tables merge_files and merge_numbers
SELECT merge_files.*, number
FROM merge_files
JOIN merge_numbers USING (rank, place)
