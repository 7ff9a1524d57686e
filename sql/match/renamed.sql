-- renamed: pairs ops of the same call under the names that golden gives them, by the mappings and the tables of APIs.
-- grain: one pair of ops
SELECT
    renamed_ops.seq AS target_seq,
    golden_ops.seq AS golden_seq,
    renamed_ops.renamed_by AS matched_by
FROM renamed_ops
JOIN golden_ops USING (part, stem, call_number)
