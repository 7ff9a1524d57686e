-- cell_digest(kind, type, name, digest, cell): the digest cell: a tensor's digest; for a value the CRC-32 of its text;
--   for ranks and process groups the text itself.
-- The text of a number is Python's: nan and inf, where the other cells have Nan and a leading blank.
CREATE OR REPLACE TEMP MACRO cell_digest(kind, type, name, digest, cell) AS
CASE
    WHEN kind = 'tensor' THEN coalesce(digest, '00000000')
    WHEN kind = 'object' AND type LIKE '%ProcessGroup' OR kind = 'scalar' AND is_rank_argument(name) THEN cell
    WHEN kind IN ('scalar', 'object')
        THEN digest_of_text(CASE WHEN type = 'str' THEN cell WHEN cell = 'Nan' THEN 'nan' ELSE ltrim(cell) END)
    ELSE 'N/A'
END
