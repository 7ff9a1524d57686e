-- perturbations: what changes of inputs did to ops (schemas/perturbations.yaml), with the name of the perturbation.
-- grain: see the schema
-- parameters: perturbations_files, lake_depth
SELECT
    perturbation_of(filename) AS perturbation,
    * EXCLUDE (filename) REPLACE (perturbation_status(mode, is_consistent) AS status)
FROM read_parquet(
    getvariable('perturbations_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
