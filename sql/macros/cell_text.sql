-- cell_text(text): a text in quotes, as Python writes it in a list.
CREATE OR REPLACE TEMP MACRO cell_text(text) AS
if(
    contains(text, '''') AND NOT contains(text, '"'),
    '"' || replace(replace(replace(text, '\', '\\'), chr(10), '\n'), chr(9), '\t') || '"',
    '''' || replace(replace(replace(replace(text, '\', '\\'), '''', '\'''), chr(10), '\n'), chr(9), '\t') || ''''
)
