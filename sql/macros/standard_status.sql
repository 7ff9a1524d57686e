-- standard_status(m, standard): the verdict of one of msprobe's precision standards on one leaf, pass, warning or error:
--   absolute, binary, ulp, thousandth, accumulative, pre_check or benchmark. `m` is a row of measures with dtype and
--   balance_limit; standard_measures(target, golden) gives one.
-- source: msprobe 26.2, api_accuracy_checker
CREATE OR REPLACE MACRO standard_status(m, standard) AS
CASE
    WHEN standard = 'binary' THEN if(m.binary_error_share = 0, 'pass', 'error')
    WHEN standard = 'absolute'
        THEN if(m.nonfinite_error_share = 0 AND m.relative_error_share = 0 AND m.absolute_error_share = 0, 'pass', 'error')
    WHEN standard = 'accumulative'
        THEN if(
            m.accumulative_nonfinite_share = 0 AND m.accumulative_relative_share = 0
                AND m.accumulative_absolute_share = 0 AND m.error_balance <= m.balance_limit,
            'pass', 'error'
        )
    WHEN standard = 'ulp' AND m.dtype IN ('float32', 'float64')
        THEN if(m.mean_ulp < 64 OR m.ulp_share < 0.05, 'pass', 'error')
    WHEN standard = 'ulp' THEN if(m.ulp_share < 0.001, 'pass', 'error')
    WHEN standard = 'thousandth' THEN if(m.one_thousandth_ratio >= 0.999, 'pass', 'error')
    WHEN standard IN ('pre_check', 'benchmark') THEN pre_check(m)
END
