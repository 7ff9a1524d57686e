-- exchange: gives each row of exchanged the golden row that has its values.
UPDATE pairing
SET golden_row = exchanged.golden_row
FROM exchanged
WHERE pairing.row = exchanged.row
