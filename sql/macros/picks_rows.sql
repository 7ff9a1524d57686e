-- picks_rows(api, slot): whether an input of attention, a query or a key, says only which values are averaged: their norm is
-- that of the result, whatever the scores are.
CREATE OR REPLACE MACRO picks_rows(api, slot) AS
is_attention(api) AND slot IN ('input.0', 'input.1', 'input.query', 'input.key')
