-- replaced_once(text, part, other): text with the first occurrence of part replaced by other.
CREATE OR REPLACE MACRO replaced_once(text, part, other) AS
CASE
    WHEN contains(text, part)
        THEN left(text, strpos(text, part) - 1) || other || substr(text, strpos(text, part) + length(part))
    ELSE text
END
