-- is_low_precision(spacing): whether a dtype with this spacing at 1 is float16, bfloat16 or smaller. One rounding of such a
-- dtype shows in statistics, and hides what another chip rounds in float32.
CREATE OR REPLACE MACRO is_low_precision(spacing) AS
spacing >= 2.0 ** -10
