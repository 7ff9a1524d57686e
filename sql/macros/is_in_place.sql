-- is_in_place(api): whether an API changes its first input, as its name says: mul_ and __iadd__, but not __add__.
CREATE OR REPLACE MACRO is_in_place(api) AS
regexp_matches(api, '[^_]_$|^__i(add|sub|mul|matmul|div|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)__$')
