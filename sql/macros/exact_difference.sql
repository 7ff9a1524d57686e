-- exact_difference_of(n, b, n_int, b_int): n - b; from the exact integers if doubles would lose digits.
CREATE OR REPLACE MACRO exact_difference_of(n, b, n_int, b_int) AS
CASE
    WHEN n_int IS NOT NULL AND b_int IS NOT NULL AND (abs(n) >= 2.0 ** 53 OR abs(b) >= 2.0 ** 53)
        THEN (n_int::HUGEINT - b_int::HUGEINT)::DOUBLE
    ELSE difference_of(n, b)
END
