-- factors: what each product of tensors of one size multiplies, and what each attention does.
-- grain: one factor of a call of the forward pass: an input of a multiplication, or query, key or value of an attention
-- parameters: the tables noise_leaves and noise_ops
-- place: its place among the inputs
-- size: the root mean square of its elements
-- width: the size of its last dimension
-- is_multiplied: a gradient of it is multiplied by the others. That of a value is not, but averaged
-- is_compared: it is a query or a key, whose products are the scores of an attention
WITH
    apis AS (
        SELECT api, is_multiplication(api) AS multiplies, is_attention(api) AS attends
        FROM (SELECT DISTINCT api FROM noise_ops)
    ),
    taken AS (
        SELECT
            o.number,
            o.call_key,
            regexp_extract(l.slot, '\d+') AS place,
            l.golden_norm,
            l.n,
            l.width,
            apis.multiplies
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        JOIN apis USING (api)
        WHERE
            l.is_paired
            AND l.is_input
            AND l.is_float
            AND o.direction = 'forward'
            AND (apis.multiplies OR (apis.attends AND l.slot IN ('input.0', 'input.1', 'input.2')))
    )
SELECT
    number,
    call_key,
    place,
    max(golden_norm / sqrt(n)) AS size,
    max(width) AS width,
    bool_or(multiplies OR place <> '2') AS is_multiplied,
    bool_or(NOT multiplies AND place <> '2') AS is_compared
FROM taken
GROUP BY number, call_key, place
