-- unit_ops(folder, held): the ops of one unit, each with the number that pairs its calls.
-- grain: one op, in the order of the dump
-- held: see unit_rows
-- call_number: the call number in the name; backward calls are numbered anew in order of appearance, because a
--   framework numbers them in the order in which they happen to run (so does msprobe 26.2)
CREATE OR REPLACE MACRO unit_ops(folder, held := NULL) AS TABLE
SELECT
    seq,
    part,
    op,
    kind AS op_kind,
    api_type,
    api,
    module_class,
    direction,
    call,
    coalesce(backward.nth - 1, call, 0) AS call_number,
    stem,
    first_row,
    parent,
    micro_step,
    is_recompute,
    stack,
    extra AS op_extra
FROM unit_rows(folder || '/ops.parquet', held)
-- numbered apart, because a window sorts all columns that it passes on
LEFT JOIN (
    SELECT seq, row_number() OVER (PARTITION BY part, stem ORDER BY seq) AS nth
    FROM unit_rows(folder || '/ops.parquet', held)
    WHERE direction = 'backward'
) AS backward USING (seq)
