-- csv_cell(cell): a text as it goes into csv: one that a spreadsheet would run as a formula has an apostrophe before it.
-- Numbers, shares in percent, and the infinities stay as they are.
CREATE OR REPLACE TEMP MACRO csv_cell(cell) AS
if(
    regexp_matches(cell, '^[=+\-@\t\r\n＝＋－＠]')
    AND NOT regexp_full_match(cell, '[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?%?|[-+]?(inf|nan)', 'i'),
    '''' || cell,
    cell
)
