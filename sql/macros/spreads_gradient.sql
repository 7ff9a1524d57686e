-- spreads_gradient(api): whether an API or module class picks or weighs what it takes by numbers that sum to one, so that the
-- gradients that it gives have together the total of the gradient that comes in.
CREATE OR REPLACE MACRO spreads_gradient(api) AS
regexp_matches(
    api,
    '(?i)^(index\w*|gather|embedding|interpolate|upsample\w*|where|(min|max)(imum)?|split|chunk|unbind|max_?pool\w*|pixel_\w+|__getitem__)$'
)
