-- has_steps(api): whether a function jumps from one value to another, so that noise can move an element over a step.
CREATE OR REPLACE MACRO has_steps(api) AS
regexp_matches(
    api,
    '(?i)^(ceil|floor|round|rint|trunc|fix|frac|sign|sgn|heaviside|floor_divide|fmod|remainder|__r?(floordiv|mod)__)_?$'
)
