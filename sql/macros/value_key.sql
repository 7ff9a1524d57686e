-- value_key(max, min, zeros, elements, digest): what a value keeps when it is passed on, reshaped or transposed; NULL for a
-- constant, which identifies nothing.
CREATE OR REPLACE MACRO value_key("max", "min", zeros, elements, digest) AS
if(
    coalesce("max" <> "min", digest IS NOT NULL) AND elements > 1,
    hash("max", "min", zeros, elements, if("max" IS NULL, digest, NULL)),
    NULL
)
