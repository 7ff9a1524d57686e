-- keeps_total(api): whether an API or module class only moves, adds or averages what it takes, so that the total or the mean of
-- its result is that of its inputs.
CREATE OR REPLACE MACRO keeps_total(api) AS
is_sum(api)
OR regexp_matches(
    api,
    '(?i)^((sum|mean|index_add|scatter_add)_?|(adaptive_?)?avg_?pool\w*|reshape|view|permute|transpose|contiguous|clone|flatten|roll|flip'
    || '|expand|repeat|tile|fold|identity)$'
)
