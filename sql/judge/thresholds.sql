-- thresholds: every number that a verdict, the word "different" or a cause hangs on; a rule changes one with SET VARIABLE,
--   and analyses of the comparison go by what it set.
-- grain: one threshold
-- parameters: the table comparison_kind; between_frameworks stands in for value where the runs are of two frameworks
SELECT
    name,
    if((SELECT cross_framework FROM comparison_kind), between_frameworks, value) AS value,
    meaning
FROM (
    VALUES
        ('cross_framework', 0.0, 1.0, '1: dtypes need only be of one class, and what one side does not record is no finding'),
        ('unmatched_is_finding', 1.0, 0.0, '1: a row without counterpart is a finding; 0: it is to be expected'),
        ('noise_factor', 16.0, 64.0, 'values within so many spacings of their dtype are equal within float noise'),
        ('norm_error_input', 0.1, 0.1, 'statistics: inputs agree while their norm error stays below this'),
        ('norm_error_output', 0.5, 0.5, 'statistics: error where inputs agree and an output''s norm error is above this'),
        ('norm_growth', 10.0, 10.0, 'statistics: warning where the norm error grows by more than this factor'),
        ('norm_growth_from_zero', 0.1, 0.1, 'statistics: warning where inputs are equal and an output''s norm error is above this'),
        ('thousandth_input', 0.9, 0.9, 'tensors: inputs agree while their share below one thousandth stays above this'),
        ('thousandth_output', 0.6, 0.6, 'tensors: error where inputs agree and an output''s share is below this'),
        ('cosine_input', 0.9, 0.9, 'tensors: inputs agree while their cosine stays above this'),
        ('cosine_drop', 0.1, 0.1, 'tensors: warning where inputs agree and the cosine falls by more than this'),
        ('outstanding_score', 3.0, 3.0, 'noise: an op stands out of rounding noise from this score on'),
        ('certain_score', 5.0, 5.0, 'noise: an op of this score that is off by a thousandth goes before those behind it'),
        ('coarsest_matmul', 0.002, 0.002, 'noise: by how much matrix products are off at most for rounding, relatively'),
        ('coarsest_other', 0.00002, 0.00002, 'noise: by how much other ops are off at most for rounding'),
        ('coarsest_low', 0.02, 0.02, 'noise: by how much ops are off at most for rounding in 16 bits'),
        ('made_growth', 10.0, 10.0, 'blame: an op makes an error where its output is off by more than so many times what comes in explains'),
        ('carried_share', 0.01, 0.01, 'blame: an input carries an error on if it has at least this share of the largest of its op'),
        ('same_norm', 0.0001, 0.0001, 'blame: two sights of a value are one where their norms agree to this share'),
        ('overflow_jump', 100.0, 100.0, 'overflow: an op whose norm grows by more than this factor')
) AS thresholds(name, value, between_frameworks, meaning)
