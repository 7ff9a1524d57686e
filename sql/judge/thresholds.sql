-- thresholds: every number that a verdict or the word "different" hangs on; a rule changes one with SET VARIABLE.
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
        ('cosine_drop', 0.1, 0.1, 'tensors: warning where inputs agree and the cosine falls by more than this')
) AS thresholds(name, value, between_frameworks, meaning)
