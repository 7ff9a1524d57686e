-- calls: the API calls of one unit with all their leaves, and a key that calls share which need to run only once.
-- grain: one forward call of an API
-- parameters: $run, $step, $rank; the views ops, tensors and tensor_references
-- attributes: what a primitive of MindSpore was made with, as JSON; NULL if it is none, or that was not recorded
-- key: the op, its attributes and inputs (contents, or else statistics), and those results that the dump has with contents
WITH
leaves AS (
    SELECT
        seq,
        row,
        {
            'slot': slot, 'role': role, 'section': section, 'path': path, 'kind': kind, 'type': type, 'dtype': dtype,
            'shape': shape, 'max': max, 'min': min, 'max_int': max_int, 'min_int': min_int, 'nan_count': nan_count,
            'posinf_count': posinf_count, 'neginf_count': neginf_count, 'zero_count': zero_count, 'value': value,
            'requires_grad': requires_grad, 'extra': extra, 'content': content, 'content_problem': content_problem
        } AS leaf,
        reference
    FROM tensors
    LEFT JOIN tensor_references USING (run, step, rank, content)
    WHERE run = $run AND step = $step AND rank = $rank
),
entries AS (
    SELECT
        seq,
        list(leaf ORDER BY row) AS leaves,
        list(reference ORDER BY row) AS places,
        list(leaf ORDER BY row) FILTER (leaf.role = 'input' OR leaf.content IS NOT NULL) AS decisive
    FROM leaves
    GROUP BY seq
),
own_ops AS (
    SELECT *, if(json_valid(extra), extra ->> '$.attributes', NULL) AS attributes FROM ops
    WHERE run = $run AND step = $step AND rank = $rank AND kind = 'api'
)
SELECT
    forward.seq,
    forward.op,
    forward.api_type,
    forward.api,
    forward.parent,
    backward.op AS backward_op,
    backward.seq AS backward_seq,
    forward.empties,
    forward.attributes,
    coalesce(f.leaves, []) AS forward_leaves,
    coalesce(f.places, []) AS forward_places,
    coalesce(b.leaves, []) AS backward_leaves,
    coalesce(b.places, []) AS backward_places,
    md5(to_json([
        forward.api_type, forward.api, forward.empties, forward.attributes,
        to_json(f.decisive)::VARCHAR, to_json(b.decisive)::VARCHAR
    ])::VARCHAR) AS key
FROM own_ops AS forward
LEFT JOIN own_ops AS backward
    ON backward.direction = 'backward'
    AND backward.part = forward.part
    AND backward.op = regexp_replace(forward.op, '\.forward$', '.backward')
LEFT JOIN entries AS f ON f.seq = forward.seq
LEFT JOIN entries AS b ON b.seq = backward.seq
WHERE forward.direction = 'forward'
ORDER BY forward.seq
