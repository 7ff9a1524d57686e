-- ratio_status(x, y, least, most): whether the error x of a device is at most `most` times the error y of its peer.
--   What is not finite must be the same on both sides. `least` is the smallest y that counts.
-- source: msprobe 26.2, benchmark standard
CREATE OR REPLACE MACRO ratio_status(x, y, least, most) AS
CASE
    WHEN isinf(x) OR isinf(y) THEN if(x = y, 'pass', 'error')
    WHEN isnan(x) OR isnan(y) THEN if(isnan(x) AND isnan(y), 'pass', 'error')
    WHEN abs(x) / greatest(abs(y), least) > most THEN 'error'
    ELSE 'pass'
END
