-- search_layouts: how the contents of pairs that a search found lie in the two units, where they lie otherwise.
-- grain: one pair of contents
-- target_strides, golden_strides: in bytes; with them and `shape` the two are arrays whose elements belong together
CREATE TEMP TABLE search_layouts (
    target_content VARCHAR,
    golden_content VARCHAR,
    shape BIGINT [],
    target_strides BIGINT [],
    golden_strides BIGINT [],
    note VARCHAR
)
