-- csv_cell(cell): a text as it goes into csv: one that a spreadsheet would run as a formula has an apostrophe before it.
-- Numbers, shares in percent, and the infinities stay as they are.
-- The first condition is for speed: nearly all cells begin with a digit, a letter or a bracket, so they are not formulas.
CREATE OR REPLACE TEMP MACRO csv_cell(cell) AS
CASE
    WHEN cell >= '0' AND cell < '=' OR cell >= 'A' AND cell < chr(57344) THEN cell
    WHEN
        regexp_matches(cell, '^[=+\-@\t\r\n＝＋－＠]')
        AND NOT regexp_full_match(cell, '[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?%?|[-+]?(inf|nan)', 'i')
        THEN '''' || cell
    ELSE cell
END
