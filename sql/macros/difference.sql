-- difference_of(n, b): n - b; 0 where they are equal, NaN with NaN and inf with inf included.
CREATE OR REPLACE MACRO difference_of(n, b) AS
CASE WHEN n = b THEN 0.0::DOUBLE ELSE n - b END
