-- rounding_of(api): how an API or module class rounds its result: matmul (long sums, perhaps with inputs cut to fewer
--   bits), exact (it moves or picks values) or other.
CREATE OR REPLACE MACRO rounding_of(api) AS
CASE
    WHEN regexp_matches(api, '(?i)dropout|embedding') THEN 'exact'
    WHEN
        regexp_matches(
            api,
            '(?i)matmul|linear|dense|addmm|baddbmm|bmm|\bmm\b|conv($|[^e])|einsum|attention|lstm|gru|rnn|\bdot\b|\bmv\b'
            || '|tensordot'
        )
        THEN 'matmul'
    WHEN
        regexp_matches(
            api,
            '(?i)getitem|setitem|view|reshape|transpose|permute|expand|repeat|\bcat\b|concat|stack|chunk|split|flatten'
            || '|where|masked_fill|index|gather|clone|contiguous|__neg__|relu\b|max_?pool|pad\b|roll|flip|unsqueeze'
            || '|squeeze|clamp|\babs\b|tril|triu|diagonal|topk|detach|identity|unfold|narrow|select|slice|scatter\b'
        )
        THEN 'exact'
    ELSE 'other'
END
