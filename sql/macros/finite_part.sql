-- finite_part(x): x if it is a finite number, else NULL.
CREATE OR REPLACE MACRO finite_part(x) AS
if(isfinite(x), x, NULL)
