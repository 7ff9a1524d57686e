-- is_rank_argument(name): whether a row is the rank that a communication op sends to or receives from.
CREATE OR REPLACE TEMP MACRO is_rank_argument(name) AS
regexp_matches(name, '\.(src|dst|group_src|group_dst)$')
