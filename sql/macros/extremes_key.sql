-- extremes_key(max, min, digest): a number for a value by its max and min, which a transposed, reshaped or widened tensor
--   keeps to the last bit, or by its digest where there are no statistics.
CREATE OR REPLACE MACRO extremes_key("max", "min", digest) AS
hash("max", "min", if("max" IS NULL, digest, NULL))
