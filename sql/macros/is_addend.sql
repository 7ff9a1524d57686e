-- is_addend(api, slot): whether the input in this slot is no factor of a matrix product but added to it.
CREATE OR REPLACE MACRO is_addend(api, slot) AS
slot IN ('input.0', 'input.input') AND regexp_matches(api, '(?i)^(addmm|baddbmm|addbmm|addmv|addr)_?$')
