-- thresholds: every number that verdicts, differences and causes depend on. A rule changes one with SET VARIABLE, and
--   the analyses of its comparison use the same value.
-- grain: one threshold
-- parameters: the table comparison_kind; between two frameworks, between_frameworks replaces value
SELECT
    name,
    if((SELECT cross_framework FROM comparison_kind), between_frameworks, value) AS value,
    meaning
FROM (
    VALUES
        ('cross_framework', 0.0, 1.0, '1: dtypes of one class are equal, and what one side does not record is not a finding'),
        ('unmatched_is_finding', 1.0, 0.0, '1: a row without counterpart is a finding; 0: it is expected'),
        ('noise_factor', 16.0, 64.0, 'values this many spacings of their dtype apart are equal within float noise'),
        ('norm_error_input', 0.1, 0.1, 'statistics: inputs agree if their norm error is below this'),
        ('norm_error_output', 0.5, 0.5, 'statistics: error if inputs agree and an output''s norm error is above this'),
        ('norm_growth', 10.0, 10.0, 'statistics: warning if the norm error grows by more than this factor'),
        ('norm_growth_from_zero', 0.1, 0.1, 'statistics: warning if inputs are equal and an output''s norm error is above this'),
        ('thousandth_input', 0.9, 0.9, 'tensors: inputs agree if their share of elements within one thousandth is above this'),
        ('thousandth_output', 0.6, 0.6, 'tensors: error if inputs agree and an output''s share is below this'),
        ('cosine_input', 0.9, 0.9, 'tensors: inputs agree if their cosine is above this'),
        ('cosine_drop', 0.1, 0.1, 'tensors: warning if inputs agree and the cosine falls by more than this'),
        ('outstanding_score', 3.0, 3.0, 'noise: an op stands out of rounding noise from this score on'),
        ('certain_score', 5.0, 5.0, 'noise: an op with this score and an error above a thousandth comes before later ops'),
        ('floor_factor', 3.0, 3.0, 'noise: an error of up to this many times the floor of its model is rounding'),
        ('outright_factor', 5.0, 5.0, 'noise: an error of this many times the floor is none, however ops of its kind err'),
        ('outright_error', 0.01, 0.01, 'noise: an argument or gradient that no op made is not rounding from this relative error on'),
        ('coarsest_matmul', 0.002, 0.002, 'noise: the largest relative error of a matrix product by rounding'),
        ('coarsest_other', 0.00002, 0.00002, 'noise: the largest relative error of another op by rounding'),
        ('coarsest_low', 0.02, 0.02, 'noise: the largest relative error of an op by rounding in 16 bits'),
        ('repeat_factor', 3.0, 3.0, 'a difference is noise up to this many times that of a repeat of the golden run'),
        ('repeat_growth', 10.0, 10.0, 'noise: an op stands out beside a repeat if its added error is this many times the repeat''s'),
        ('made_growth', 10.0, 10.0, 'blame: an op adds error if its output error exceeds what its inputs explain by this factor'),
        ('carried_share', 0.01, 0.01, 'blame: an input passes error on if it has at least this share of its op''s largest'),
        ('same_norm', 0.0001, 0.0001, 'blame: two records are of one value if their norms agree to this share'),
        ('overflow_jump', 100.0, 100.0, 'overflow: an op whose norm grows by more than this factor')
) AS thresholds(name, value, between_frameworks, meaning)
