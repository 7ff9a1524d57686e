-- shift_unit(spread, independent, n, brought, dependent, replaced, rounding): how far rounding moves a norm: the spread of
-- the kind of op, errors that are independent, which move it a √n-th as far, shifts that came in, errors that are not
-- independent, what is left of golden's error beside a repeat, and twice the precision of the statistics.
CREATE OR REPLACE MACRO shift_unit(spread, independent, n, brought, dependent, replaced, rounding) AS
sqrt(
    spread ** 2 + 4 * independent ** 2 / n + brought ** 2 + dependent ** 2 + replaced ** 2 + (2 * rounding) ** 2
)
