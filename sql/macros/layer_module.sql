-- layer_module(op): path and class of the module whose op has that name; NULL if it is not a module's.
CREATE OR REPLACE MACRO layer_module(op) AS
CASE
    WHEN regexp_matches(op, '\.(forward|backward)\.\d+$')
        THEN regexp_extract(op, '^[^.]+\.(?:(.*)\.)?([^.]+)\.(?:forward|backward)\.\d+$', ['path', 'class'])
END
