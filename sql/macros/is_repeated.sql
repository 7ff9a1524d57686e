-- is_repeated(error, repeated, moved, spacing): whether a repeat of golden explains the error of what no op made: it differs at most
--   repeat_growth times as far as there. Where the repeat moves many parameters (moved, or NULL), each may differ as far as the
--   middle one, and in float32 by a spacing, because of one that a rounding moves statistics may show nothing.
CREATE OR REPLACE MACRO is_repeated(error, repeated, moved, spacing) AS
greatest(repeated, moved, if(moved IS NULL OR is_low_precision(spacing), 0, spacing)) > 0
AND error <= getvariable('repeat_growth') * greatest(repeated, moved, if(moved IS NULL OR is_low_precision(spacing), 0, spacing))
