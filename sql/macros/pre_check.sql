-- pre_check(m): msprobe's verdict on one leaf before any other device is asked; `m` is a row of measures.
-- source: msprobe 26.2, api_accuracy_checker: cosine, then the largest error, then shares of relative errors
CREATE OR REPLACE MACRO pre_check(m) AS
CASE
    WHEN m.cosine <= 0.99 OR m.cosine_note = 'one zero' THEN 'error'
    WHEN m.max_abs_error < 0.001 THEN 'pass'
    WHEN m.dtype IN ('float16', 'bfloat16') AND m.one_hundredth_ratio <= 0.99 THEN 'error'
    WHEN m.dtype IN ('float16', 'bfloat16') THEN if(m.one_thousandth_ratio > 0.999, 'pass', 'warning')
    WHEN m.dtype IN ('float32', 'float64') AND m.one_thousandth_ratio <= 0.999 THEN 'error'
    WHEN m.dtype IN ('float32', 'float64') AND m.one_ten_thousandth_ratio <= 0.9999 THEN 'warning'
    ELSE 'pass'
END
