-- farthest_statistic(pair): the statistic in which the two sides of a row of results differ most, relative to the
--   tensor: its name, and its value on either side. A statistic that only one side has comes next; it is the norm if
--   all agree or there is only one side.
CREATE OR REPLACE MACRO farthest_statistic(pair) AS
list_sort(
    list_transform(
        [
            {'turn': 4, 'name': 'norm', 'target': pair.target_norm, 'golden': pair.golden_norm, 'scale': pair.golden_norm},
            {
                'turn': 3,
                'name': 'max',
                'target': pair.target_max,
                'golden': pair.golden_max,
                'scale': magnitude_of(pair.golden_max, pair.golden_min)
            },
            {
                'turn': 2,
                'name': 'min',
                'target': pair.target_min,
                'golden': pair.golden_min,
                'scale': magnitude_of(pair.golden_max, pair.golden_min)
            },
            {
                'turn': 1,
                'name': 'mean',
                'target': pair.target_mean,
                'golden': pair.golden_mean,
                'scale': pair.golden_norm / root_elements_of(pair.golden_shape)
            }
        ],
        lambda it: {
            'distance': CASE
                WHEN it.target = it.golden THEN 0
                ELSE
                    coalesce(
                        abs(it.target - it.golden) / nullif(abs(it.scale), 0),
                        abs(it.target - it.golden),
                        if(it.target IS NULL AND it.golden IS NULL, -1, 1e-300)
                    )
            END::DOUBLE,
            'turn': it.turn,
            'name': it.name,
            'target': it.target,
            'golden': it.golden
        }
    ),
    'DESC'
)[1]
