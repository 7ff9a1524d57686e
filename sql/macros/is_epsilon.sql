-- is_epsilon(api, slot): whether what a normalisation takes in this slot is what it adds to the variance.
CREATE OR REPLACE MACRO is_epsilon(api, slot) AS
CASE
    WHEN slot IN ('input.eps', 'input.epsilon') THEN true
    WHEN slot = 'input.7' THEN regexp_matches(api, '(?i)^(batch|instance)_?norm\w*$')
    WHEN slot = 'input.4' THEN regexp_matches(api, '(?i)^(layer|group)_?norm\w*$')
    WHEN slot = 'input.3' THEN regexp_matches(api, '(?i)^rms_?norm\w*$')
    ELSE false
END
