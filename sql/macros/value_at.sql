-- value_at(api, x): what a function gives for a number x of a part of its domain in which it only rises, or only falls; NULL of
-- other functions, and elsewhere. gelu needs the normal distribution, here to 1e-7 (M. Abramowitz and I. Stegun, Handbook of Mathematical
-- Functions, 26.2.17).
CREATE OR REPLACE MACRO value_at(api, x) AS
CASE
    WHEN regexp_matches(api, '(?i)^tanh_?$') THEN tanh(x)
    WHEN regexp_matches(api, '(?i)^sigmoid_?$') THEN 1 / (1 + exp(-x))
    WHEN regexp_matches(api, '(?i)^exp_?$') THEN exp(x)
    WHEN regexp_matches(api, '(?i)^softplus$') THEN ln(1 + exp(x))
    WHEN regexp_matches(api, '(?i)^rsqrt_?$') AND x > 0 THEN 1 / sqrt(x)
    WHEN x <= 0.1 THEN NULL
    WHEN regexp_matches(api, '(?i)^(leaky_?)?relu_?$') THEN x
    WHEN regexp_matches(api, '(?i)^sqrt_?$') THEN sqrt(x)
    WHEN regexp_matches(api, '(?i)^(silu|swish)_?$') THEN x / (1 + exp(-x))
    WHEN regexp_matches(api, '(?i)^gelu(activation)?$')
        THEN
            x * (
                1 - exp(-x * x / 2) / sqrt(2 * pi()) / (1 + 0.2316419 * x) * (
                    0.319381530 + (
                        -0.356563782 + (
                            1.781477937 + (-1.821255978 + 1.330274429 / (1 + 0.2316419 * x)) / (1 + 0.2316419 * x)
                        ) / (1 + 0.2316419 * x)
                    ) / (1 + 0.2316419 * x)
                )
            )
END
