-- statistics: the laws checked against the recorded statistics, for results whose contents were not dumped.
-- grain: one result, or all results of a meeting together (rank NULL) if they are cut out of larger tensors
-- parameters: after parts, expected and tensors_moved
-- The sum of elements is linear, so the mean of a sum is the sum of means; a sum's largest element lies between bounds
-- that each member's largest and smallest set; its norm is at most the sum of norms (triangle inequality).
-- Slack: a statistic is rounded to its tensor's dtype, and float32 sums of n numbers err by about sqrt(n) roundings,
-- n for certain; the error of a sum of k numbers is at most k roundings of the sum of their sizes.
WITH
    judged AS (
        SELECT
            *,
            if(cut, -2, part) AS whole
        FROM parts
        WHERE by_statistics AND NOT by_contents AND problem IS NULL
    ),
    measured AS (
        SELECT
            * REPLACE (abs(norm) AS norm),
            greatest(abs(high), abs(low)) AS size,
            coalesce(abs(norm) / sqrt(elements), greatest(abs(high), abs(low))) AS usual_size,
            2.0 ** -23 * (8 + sqrt(elements)) AS rounding,
            isfinite(CAST(high AS DOUBLE)) AND isfinite(CAST(low AS DOUBLE)) AS finite
        FROM tensors_moved
    ),
    pieces AS (
        SELECT DISTINCT
            step,
            meeting,
            law,
            judged.whole,
            layer,
            reduction,
            expected.rank,
            expected.row
        FROM expected
        JOIN (SELECT DISTINCT step, meeting, law, part, whole FROM judged) AS judged USING (step, meeting, law, part)
    ),
    layers AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            layer,
            any_value(reduction) AS reduction,
            sum(elements) AS elements,
            max(high) AS high,
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)) AS low,
            max(size) AS size,
            if(count(mean) = count(*), ordered_sum(mean * elements), NULL) AS total,
            ordered_sum(elements * (epsilon * abs(mean) + rounding * usual_size)) AS total_slack,
            ordered_sum(elements * usual_size) AS sizes,
            if(count(norm) = count(*), sqrt(ordered_sum(norm * norm)), NULL) AS norm,
            ordered_sum(norm * (epsilon + rounding)) AS norm_slack,
            bool_and(finite) AS finite,
            max(epsilon) AS epsilon
        FROM pieces
        JOIN measured USING (step, rank, row)
        GROUP BY ALL
    ),
    sources AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            any_value(reduction) AS reduction,
            count(*) AS layers,
            max(elements) AS elements,
            max(high) AS greatest_high,
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)) AS least_low,
            min(high) AS least_high,
            max(low) AS greatest_low,
            ordered_sum(high) AS highs,
            ordered_sum(low) AS lows,
            max(high - low) AS span,
            ordered_sum(size) AS size,
            if(count(total) = count(*), ordered_sum(total), NULL) AS total,
            max(total) AS greatest_total,
            min(total) AS least_total,
            ordered_sum(total_slack) AS total_slack,
            ordered_sum(sizes) AS sizes,
            if(count(norm) = count(*), ordered_sum(norm), NULL) AS norm,
            max(norm) AS greatest_norm,
            ordered_sum(norm_slack) AS norm_slack,
            bool_and(finite) AS finite,
            max(epsilon) AS epsilon
        FROM layers
        GROUP BY ALL
    ),
    members AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            if(cut, NULL, rank) AS rank,
            if(cut, NULL, seq) AS seq,
            if(cut, NULL, slot) AS slot,
            rank AS owner,
            unnest(rows) AS row
        FROM judged
    ),
    results AS (
        SELECT
            members.step,
            meeting,
            law,
            whole,
            members.rank,
            seq,
            slot,
            count(DISTINCT owner) AS takers,
            sum(elements) AS elements,
            max(high) AS high,
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)) AS low,
            max(size) AS size,
            if(count(mean) = count(*), ordered_sum(mean * elements), NULL) AS total,
            ordered_sum(elements * (epsilon * abs(mean) + rounding * usual_size)) AS total_slack,
            if(count(norm) = count(*), sqrt(ordered_sum(norm * norm)), NULL) AS norm,
            ordered_sum(norm * (epsilon + rounding)) AS norm_slack,
            bool_and(finite) AS finite,
            max(epsilon) AS epsilon
        FROM members
        JOIN measured ON measured.step = members.step AND measured.rank = members.owner AND measured.row = members.row
        GROUP BY ALL
    ),
    -- share: what an average divides by; noise: roundings of a reduction, as a share of the sum of sizes
    held AS (
        SELECT
            results.step,
            results.meeting,
            results.law,
            results.whole,
            results.rank,
            results.seq,
            results.slot,
            takers,
            sources,
            results,
            if(sources.reduction = 'avg', sources.layers, 1) AS share,
            if(
                sources.reduction IN ('sum', 'avg'),
                greatest(sources.epsilon, results.epsilon, 2.0 ** -23) * sources.layers,
                0
            ) AS noise
        FROM results
        JOIN sources USING (step, meeting, law, whole)
    ),
    checks AS (
        SELECT
            * EXCLUDE (sources, results, share, noise),
            sources.size / share AS scale,
            unnest(
                CASE
                    WHEN sources.elements <> results.elements
                    THEN [{
                        'statistic': 'elements', 'least': sources.elements, 'most': sources.elements,
                        'found': results.elements, 'slack': 0
                    }]
                    WHEN sources.reduction IS NULL
                    THEN [
                        {
                            'statistic': 'max', 'least': sources.greatest_high, 'most': sources.greatest_high,
                            'found': results.high, 'slack': 0
                        },
                        {
                            'statistic': 'min', 'least': sources.least_low, 'most': sources.least_low,
                            'found': results.low, 'slack': 0
                        },
                        {
                            'statistic': 'mean',
                            'least': sources.total / sources.elements,
                            'most': sources.total / sources.elements,
                            'found': if(sources.finite, results.total / results.elements, NULL),
                            'slack': (sources.total_slack + results.total_slack) / sources.elements
                        },
                        {
                            'statistic': 'norm', 'least': sources.norm, 'most': sources.norm,
                            'found': if(sources.finite, results.norm, NULL),
                            'slack': sources.norm_slack + results.norm_slack
                        }
                    ]
                    WHEN sources.reduction IN ('sum', 'avg') AND sources.finite AND results.finite
                    THEN [
                        {
                            'statistic': 'max',
                            'least': (sources.lows + sources.span) / share,
                            'most': sources.highs / share,
                            'found': results.high,
                            'slack': noise * sources.size / share
                        },
                        {
                            'statistic': 'min',
                            'least': sources.lows / share,
                            'most': (sources.highs - sources.span) / share,
                            'found': results.low,
                            'slack': noise * sources.size / share
                        },
                        {
                            'statistic': 'mean',
                            'least': sources.total / sources.elements / share,
                            'most': sources.total / sources.elements / share,
                            'found': results.total / results.elements,
                            'slack': (sources.total_slack / share + results.total_slack + noise * sources.sizes / share)
                                / sources.elements
                        },
                        {
                            'statistic': 'norm',
                            'least': greatest(2 * sources.greatest_norm - sources.norm, 0) / share,
                            'most': sources.norm / share,
                            'found': results.norm,
                            'slack': (sources.norm_slack + noise * sources.norm) / share + results.norm_slack
                        }
                    ]
                    -- NaN or inf makes any sum NaN or inf; finite numbers far from overflow have a finite sum
                    WHEN
                        sources.reduction IN ('sum', 'avg')
                        AND sources.finite <> results.finite
                        AND (results.finite OR sources.size < 60000)
                    THEN [{
                        'statistic': if(sources.finite, 'max (finite put in)', 'max (NaN or inf put in)'),
                        'least': if(sources.finite, sources.highs / share, 'NaN'::DOUBLE),
                        'most': if(sources.finite, sources.highs / share, 'NaN'::DOUBLE),
                        'found': results.high,
                        'slack': 0
                    }]
                    WHEN sources.reduction = 'max' AND sources.finite
                    THEN [
                        {
                            'statistic': 'max', 'least': sources.greatest_high, 'most': sources.greatest_high,
                            'found': results.high, 'slack': 0
                        },
                        {
                            'statistic': 'min', 'least': sources.greatest_low, 'most': sources.greatest_high,
                            'found': results.low, 'slack': 0
                        },
                        {
                            'statistic': 'mean',
                            'least': sources.greatest_total / sources.elements,
                            'most': sources.greatest_high,
                            'found': results.total / results.elements,
                            'slack': (sources.total_slack + results.total_slack) / sources.elements
                        }
                    ]
                    WHEN sources.reduction = 'min' AND sources.finite
                    THEN [
                        {
                            'statistic': 'min', 'least': sources.least_low, 'most': sources.least_low,
                            'found': results.low, 'slack': 0
                        },
                        {
                            'statistic': 'max', 'least': sources.least_low, 'most': sources.least_high,
                            'found': results.high, 'slack': 0
                        },
                        {
                            'statistic': 'mean',
                            'least': sources.least_low,
                            'most': sources.least_total / sources.elements,
                            'found': results.total / results.elements,
                            'slack': (sources.total_slack + results.total_slack) / sources.elements
                        }
                    ]
                END,
                recursive := true
            )
        FROM held
    ),
    -- if either side has NaN or inf, only the same on both sides is equal
    weighed AS (
        SELECT
            *,
            CASE
                WHEN found = least AND found = most THEN 0
                WHEN NOT isfinite(CAST(found + least + most AS DOUBLE))
                THEN 'inf'::DOUBLE
                ELSE greatest(least - found, found - most, 0)
            END AS excess
        FROM checks
        WHERE found IS NOT NULL AND least IS NOT NULL AND most IS NOT NULL
    ),
    answers AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            rank,
            seq,
            slot,
            any_value(takers) AS takers,
            bool_or(excess > slack) AS is_broken,
            max(if(excess = 0, 0, excess / if(scale > 0, scale, 1))) AS error,
            -- the statistic that is farthest outside
            first(
                {'statistic': statistic, 'least': least, 'most': most, 'found': found}
                ORDER BY excess > slack DESC, excess - slack DESC, statistic
            ) AS farthest
        FROM weighed
        GROUP BY ALL
    )
SELECT
    * EXCLUDE (farthest),
    farthest.statistic || ' ' || if(
        farthest.least = farthest.most,
        printf('%.9g', CAST(farthest.least AS DOUBLE)),
        printf('%.9g to %.9g', CAST(farthest.least AS DOUBLE), CAST(farthest.most AS DOUBLE))
    ) AS expected,
    farthest.statistic || ' ' || printf('%.9g', CAST(farthest.found AS DOUBLE)) AS found
FROM answers
