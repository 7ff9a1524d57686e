-- is_addend(api, slot): whether the input in this slot is no factor of a matrix product but added to it, as a bias.
CREATE OR REPLACE MACRO is_addend(api, slot) AS
CASE
    WHEN slot IN ('input.2', 'input.bias') THEN regexp_matches(api, '(?i)^(linear|dense|conv\w*)$')
    WHEN slot IN ('input.0', 'input.input') THEN regexp_matches(api, '(?i)^(addmm|baddbmm|addbmm|addmv|addr)_?$')
    ELSE false
END
