-- statistics: the laws checked against the recorded statistics, for results whose contents were not dumped.
-- grain: one result, or all results of a meeting together (rank NULL) if they are cut out of larger tensors
-- parameters: after parts, expected and tensors_moved
-- The sum of elements is linear, so the mean of a sum is the sum of means; a sum's largest element lies between bounds
-- that each member's largest and smallest set; its norm is at most the sum of norms (triangle inequality).
-- expected, found: of a result that breaks its law: the statistic that is farthest outside
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
    -- total, total_slack, sizes, squares and norm_slack are what sums are made of
    measured AS (
        SELECT
            step,
            rank,
            row,
            elements,
            epsilon,
            high,
            low,
            greatest(abs(high), abs(low)) AS size,
            coalesce(abs(norm) / sqrt(elements), size) AS usual_size,
            2.0 ** -23 * (8 + sqrt(elements)) AS rounding,
            mean * elements AS total,
            elements * (epsilon * abs(mean) + rounding * usual_size) AS total_slack,
            elements * usual_size AS sizes,
            abs(norm) * abs(norm) AS squares,
            abs(norm) * (epsilon + rounding) AS norm_slack,
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
    -- most layers are one piece, and most results one tensor: these need no sums, which take lists
    piece_counts AS (
        SELECT step, meeting, law, whole, layer, count(*) AS pieces FROM pieces GROUP BY ALL
    ),
    laid AS (
        SELECT pieces.step, meeting, law, whole, layer, reduction, pieces, measured.* EXCLUDE (step, rank, row)
        FROM pieces
        JOIN piece_counts USING (step, meeting, law, whole, layer)
        JOIN measured USING (step, rank, row)
    ),
    layers AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            reduction,
            elements,
            high,
            low,
            size,
            total,
            total_slack,
            sizes,
            sqrt(squares) AS norm,
            norm_slack,
            finite,
            epsilon
        FROM laid
        WHERE pieces = 1
        UNION ALL
        SELECT
            step,
            meeting,
            law,
            whole,
            any_value(reduction),
            sum(elements),
            max(high),
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)),
            max(size),
            if(count(total) = count(*), ordered_sum(total), NULL),
            ordered_sum(total_slack),
            ordered_sum(sizes),
            if(count(squares) = count(*), sqrt(ordered_sum(squares)), NULL),
            ordered_sum(norm_slack),
            bool_and(finite),
            max(epsilon)
        FROM laid
        WHERE pieces > 1
        GROUP BY step, meeting, law, whole, layer
    ),
    layer_counts AS (
        SELECT step, meeting, law, whole, count(*) AS layers FROM layers GROUP BY ALL
    ),
    counted AS (
        SELECT * FROM layers JOIN layer_counts USING (step, meeting, law, whole)
    ),
    sources AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            reduction,
            layers,
            elements,
            high AS greatest_high,
            low AS least_low,
            high AS least_high,
            low AS greatest_low,
            high AS highs,
            low AS lows,
            high - low AS span,
            size,
            total,
            total AS greatest_total,
            total AS least_total,
            total_slack,
            sizes,
            norm,
            norm AS greatest_norm,
            norm_slack,
            finite,
            epsilon
        FROM counted
        WHERE layers = 1
        UNION ALL
        SELECT
            step,
            meeting,
            law,
            whole,
            any_value(reduction),
            any_value(layers),
            max(elements),
            max(high),
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)),
            min(high),
            max(low),
            ordered_sum(high),
            ordered_sum(low),
            max(high - low),
            ordered_sum(size),
            if(count(total) = count(*), ordered_sum(total), NULL),
            max(total),
            min(total),
            ordered_sum(total_slack),
            ordered_sum(sizes),
            if(count(norm) = count(*), ordered_sum(norm), NULL),
            max(norm),
            ordered_sum(norm_slack),
            bool_and(finite),
            max(epsilon)
        FROM counted
        WHERE layers > 1
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
            NOT cut AND len(rows) = 1 AS is_alone,
            rank AS owner,
            unnest(rows) AS row
        FROM judged
    ),
    taken AS (
        SELECT
            members.step,
            meeting,
            law,
            whole,
            members.rank,
            seq,
            slot,
            is_alone,
            owner,
            measured.* EXCLUDE (step, rank, row)
        FROM members
        JOIN measured ON measured.step = members.step AND measured.rank = members.owner AND measured.row = members.row
    ),
    results AS (
        SELECT
            step,
            meeting,
            law,
            whole,
            rank,
            seq,
            slot,
            1 AS takers,
            elements,
            high,
            low,
            size,
            total,
            total_slack,
            sqrt(squares) AS norm,
            norm_slack,
            finite,
            epsilon
        FROM taken
        WHERE is_alone
        UNION ALL
        SELECT
            step,
            meeting,
            law,
            whole,
            rank,
            seq,
            slot,
            count(DISTINCT owner),
            sum(elements),
            max(high),
            if(bool_or(isnan(CAST(low AS DOUBLE))), 'NaN'::DOUBLE, min(low)),
            max(size),
            if(count(total) = count(*), ordered_sum(total), NULL),
            ordered_sum(total_slack),
            if(count(squares) = count(*), sqrt(ordered_sum(squares)), NULL),
            ordered_sum(norm_slack),
            bool_and(finite),
            max(epsilon)
        FROM taken
        WHERE NOT is_alone
        GROUP BY step, meeting, law, whole, rank, seq, slot
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
            first(
                {'statistic': statistic, 'least': least, 'most': most, 'found': found}
                ORDER BY excess - slack DESC, statistic
            ) FILTER (WHERE excess > slack) AS farthest
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
