-- limits: how large the errors of an API may be by the rounding standard.
-- grain: a direction, the forward first
-- parameters: $api; the tables rounding_classes and rounding_limits
SELECT most_signed_zeros, most_ulp, most_typical, most_largest
FROM unnest(['forward', 'backward']) AS directions (direction)
LEFT JOIN rounding_classes AS kind ON kind.api = $api
JOIN rounding_limits AS limits
    ON limits.class = coalesce(if(directions.direction = 'backward', kind.backward, kind.forward), 'other')
ORDER BY directions.direction DESC
