-- makes_zeros_from(api): the magnitude of its inputs from which an API or module class makes zeros of numbers that are none:
-- of a GELU, an exponential or a softmax nothing is left far from 0. Infinite for sums, products and normalisations, which
-- make one only where terms cancel to the last bit; beyond all numbers for what only picks elements; NULL for APIs that make
-- them otherwise.
CREATE OR REPLACE MACRO makes_zeros_from(api) AS
CASE
    WHEN regexp_matches(api, '(?i)grid_sample|deform_conv') THEN 'inf'::DOUBLE
    -- what comes of a sum of what it kept may cancel
    WHEN has_kink(api) OR regexp_matches(api, '(?i)lstm|gru|rnn') THEN NULL
    WHEN
        rounding_of(api) = 'matmul'
        OR is_normalisation(api)
        OR regexp_matches(api, '(?i)avg_?pool|interpolate|upsample|embedding_?bag|^cumsum_?$|^logsumexp$')
        THEN 'inf'::DOUBLE
    WHEN regexp_matches(api, '(?i)^(index_select|gather|embedding|repeat(_interleave)?|expand|roll|flip|clone|contiguous|topk)$')
        THEN 1e300
    WHEN regexp_matches(api, '(?i)gelu') THEN 4
    WHEN regexp_matches(api, '(?i)^rsqrt_?$') THEN 1e30
    WHEN is_activation(api) OR regexp_matches(api, '(?i)^(softmax|sigmoid|softplus|exp)_?$') THEN 40
END
