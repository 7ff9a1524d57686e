-- fillers: ops that write a value of their own arguments into a tensor: −inf there is what the program asked for.
-- grain: one op name, in small letters without underscores
-- takes_nan: an argument of NaN is intended too; in arithmetic it is an accident
-- in_place: writes into its first input, so that the recorded output may not show it
FROM (VALUES
    ('maskedfill', false, true),
    ('full', false, true),
    ('fulllike', false, true),
    ('newfull', false, true),
    ('fill', true, true),
    ('fillv2', false, true),
    ('filldiagonal', true, true),
    ('indexfill', true, true),
    ('where', false, true),
    ('select', false, true),
    ('setitem', true, true),
    ('scatter', true, true),
    ('indexput', true, true),
    ('pad', false, true),
    ('constantpad', false, true),
    ('tensor', false, true),
    ('newtensor', false, true),
    ('astensor', false, true),
    ('scalartensor', false, true),
    ('constant', true, true),
    ('nantonum', false, true),
    ('add', false, false),
    ('radd', false, false),
    ('sub', false, false),
    ('rsub', false, false),
    ('mul', false, false),
    ('rmul', false, false),
    ('multiply', false, false)
) AS fillers (name, in_place, takes_nan)
