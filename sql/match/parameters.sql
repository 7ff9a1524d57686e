-- parameters: pairs the parameters of two checkpoints: by name; by the name that frameworks and wrappers share
--   (parameter_names); by the end of a longer name; then by contents.
-- grain: one pair of ops
-- Each way pairs what the ones before left over, where it finds one on either side. Contents count for tensors of two
-- axes and more: in a new model the biases and scales of many layers are equal.
WITH
    named AS (
        SELECT
            side,
            seq,
            part,
            own_name,
            content,
            list_reduce(
                list_prepend(
                    {'text': own_name, 'other': ''},
                    (SELECT list({'text': pattern, 'other': replacement} ORDER BY place) FROM parameter_names)
                ),
                lambda done, rule: {'text': regexp_replace(done.text, rule.text, rule.other, 'g'), 'other': ''}
            ).text AS name
        FROM (
            SELECT 'target' AS side, renamed_ops.seq, renamed_ops.part, renamed_ops.stem AS own_name, leaf.content
            FROM renamed_ops
            LEFT JOIN target_leaves AS leaf ON leaf.seq = renamed_ops.seq AND len(leaf.shape) > 1
            UNION ALL
            SELECT 'golden', golden_ops.seq, golden_ops.part, golden_ops.stem, leaf.content
            FROM golden_ops
            LEFT JOIN golden_leaves AS leaf ON leaf.seq = golden_ops.seq AND len(leaf.shape) > 1
        )
    ),
    by_name AS (
        SELECT target.seq AS target_seq, golden.seq AS golden_seq, 'exact' AS matched_by
        FROM named AS target
        JOIN named AS golden USING (part, own_name)
        WHERE target.side = 'target' AND golden.side = 'golden'
    ),
    left_by_name AS (
        FROM named
        WHERE
            NOT (side = 'target' AND seq IN (SELECT target_seq FROM by_name))
            AND NOT (side = 'golden' AND seq IN (SELECT golden_seq FROM by_name))
    ),
    by_shared_name AS (
        SELECT target.seq AS target_seq, golden.seq AS golden_seq, 'name' AS matched_by
        FROM left_by_name AS target
        JOIN left_by_name AS golden USING (part, name)
        WHERE target.side = 'target' AND golden.side = 'golden'
        QUALIFY count(*) OVER (PARTITION BY target.seq) = 1 AND count(*) OVER (PARTITION BY golden.seq) = 1
    ),
    left_by_shared_name AS (
        FROM left_by_name
        WHERE
            NOT (side = 'target' AND seq IN (SELECT target_seq FROM by_shared_name))
            AND NOT (side = 'golden' AND seq IN (SELECT golden_seq FROM by_shared_name))
    ),
    ends AS (
        SELECT
            side,
            seq,
            part,
            unnest(range(1, len(parts) + 1)) AS place,
            place = 1 AS is_whole,
            array_to_string(parts[place:], '.') AS ending
        FROM (SELECT *, string_split(name, '.') AS parts FROM left_by_shared_name)
    ),
    by_end AS (
        SELECT target.seq AS target_seq, golden.seq AS golden_seq, 'end of name' AS matched_by
        FROM ends AS target
        JOIN ends AS golden USING (part, ending)
        WHERE
            target.side = 'target'
            AND golden.side = 'golden'
            AND (target.is_whole OR golden.is_whole)
            AND contains(ending, '.')
        QUALIFY count(*) OVER (PARTITION BY target.seq) = 1 AND count(*) OVER (PARTITION BY golden.seq) = 1
    ),
    left_by_end AS (
        FROM left_by_shared_name
        WHERE
            NOT (side = 'target' AND seq IN (SELECT target_seq FROM by_end))
            AND NOT (side = 'golden' AND seq IN (SELECT golden_seq FROM by_end))
    ),
    by_content AS (
        SELECT target.seq AS target_seq, golden.seq AS golden_seq, 'content' AS matched_by
        FROM left_by_end AS target
        JOIN left_by_end AS golden USING (part, content)
        WHERE target.side = 'target' AND golden.side = 'golden'
        QUALIFY count(*) OVER (PARTITION BY target.seq) = 1 AND count(*) OVER (PARTITION BY golden.seq) = 1
    )
FROM by_name
UNION ALL
FROM by_shared_name
UNION ALL
FROM by_end
UNION ALL
FROM by_content
