-- exchange: gives each row of exchanged the golden row that has its values.
-- grain: one row of pairing that is exchanged
UPDATE pairing
SET golden_row = exchanged.golden_row
FROM exchanged
WHERE pairing.row = exchanged.row
