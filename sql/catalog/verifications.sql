-- verifications: what ops gave when they were run again (schemas/verifications.yaml), with the name of the verification.
-- grain: see the schema
-- parameters: verifications_files, lake_depth
SELECT verification_of(filename) AS verification, * EXCLUDE (filename)
FROM read_parquet(
    getvariable('verifications_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
