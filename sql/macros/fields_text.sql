-- fields_text(extra, type, other_extra, other_type): the fields of a leaf that another leaf of its type has otherwise, such as the
-- rank that a P2POp sends to; NULL if there are none. A field may have any length: its first 100 characters say what it is.
CREATE OR REPLACE MACRO fields_text(extra, type, other_extra, other_type) AS
if(
    type = other_type AND extra IS DISTINCT FROM other_extra,
    nullif(
        array_to_string(
            [
                ' ' || key || ' ' || left(extra ->> key, 100)
                FOR key IN json_keys(extra)
                IF (extra -> key) IS DISTINCT FROM (other_extra -> key)
            ],
            ''
        ),
        ''
    ),
    NULL
)
