-- search_left: why rows have no counterpart, if the search knows.
-- grain: one row of one side, or (row NULL) all rows of an op that are not listed
CREATE TEMP TABLE search_left (side VARCHAR, seq INTEGER, row INTEGER, outcome VARCHAR, reason VARCHAR)
