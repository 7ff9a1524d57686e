-- keeps_total(api): whether an API or module class only moves, adds or averages what it takes, so that the total or the mean of
-- its result is that of its inputs, and the total of its gradients that of the gradient that comes in.
CREATE OR REPLACE MACRO keeps_total(api) AS
is_sum(api)
OR regexp_matches(
    api,
    '(?i)^(sum|mean|index_(add|put|copy|select)_?|scatter(_add)?_?|gather|embedding(_?bag)?|interpolate|upsample\w*|where|(min|max)(imum)?'
    || '|split|chunk|unbind|reshape|view|permute|transpose|contiguous|clone|flatten|roll|flip|expand|repeat|fold|pixel_(un)?shuffle'
    || '|avg_?pool|max_?pool|__getitem__|identity|tile|pad)'
)
