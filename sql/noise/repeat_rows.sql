-- repeat_rows: what repeats of golden differ from it by, in this unit; no row where no noise was asked for.
-- grain: one tensor of golden
-- parameters: noise_files (a list of files), golden_step, golden_rank
SELECT golden_row, golden_seq, role, error, stands_out
FROM read_parquet(getvariable('noise_files'))
WHERE step = getvariable('golden_step') AND rank = getvariable('golden_rank')
