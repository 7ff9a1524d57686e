-- difference_of(n, b): n - b; 0 if they are equal, including NaN with NaN and inf with inf.
CREATE OR REPLACE MACRO difference_of(n, b) AS
CASE WHEN n = b THEN 0.0::DOUBLE ELSE n - b END
