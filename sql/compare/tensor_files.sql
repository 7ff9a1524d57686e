-- tensor_files: the files that hold tensor contents of the two units.
-- grain: one file
SELECT DISTINCT reference.file FROM target_leaves WHERE reference IS NOT NULL
UNION
SELECT DISTINCT reference.file FROM golden_leaves WHERE reference IS NOT NULL
