-- tensor_files: the files with the tensor contents of the two units.
-- grain: one file
SELECT reference.file FROM target_contents
UNION
SELECT reference.file FROM golden_contents
