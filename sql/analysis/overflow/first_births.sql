-- first_births: the ops where NaN or inf is born, those without an earlier one on their rank first.
-- grain: one op (sql/analysis/overflow/births.sql)
-- parameters: none; the table overflow_births
FROM overflow_births
ORDER BY step, is_after_others, seq, rank
