-- solves(api): whether an API solves a system of equations with the matrix that it takes, or inverts it.
CREATE OR REPLACE MACRO solves(api) AS
regexp_matches(api, '(?i)^(linalg_)?(solve|solve_ex|cholesky_solve|triangular_solve|lstsq|inv|inv_ex|inverse|pinv)$')
