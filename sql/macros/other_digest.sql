-- other_digest(target, golden): whether two digests say that contents differ. NULL where a side has none or an empty one,
--   or where another algorithm made it: CRC-32 has 8 digits, xor 0x and 16, MD5 32, SHA-256 64.
CREATE OR REPLACE MACRO other_digest(target, golden) AS
if(length(target) = length(golden), nullif(target, '') <> golden, NULL)
