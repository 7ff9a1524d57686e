-- search_layouts: the memory layouts of paired contents that a search found to differ between the two units.
-- grain: one pair of contents
-- target_strides, golden_strides: in bytes; with `shape` they give two arrays whose elements correspond
CREATE TEMP TABLE search_layouts (
    target_content VARCHAR,
    golden_content VARCHAR,
    shape BIGINT [],
    target_strides BIGINT [],
    golden_strides BIGINT [],
    note VARCHAR
)
