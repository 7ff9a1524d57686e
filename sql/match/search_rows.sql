-- search_rows: the pairs of rows that a search found.
-- grain: one pair of a target row and a golden row
-- confidence: from 0 to 1; reason: the evidence for the pair
CREATE TEMP TABLE search_rows (target_row INTEGER, golden_row INTEGER, confidence DOUBLE, reason VARCHAR)
