-- unit_tensors: the table tensors of the merged unit.
-- grain: one leaf
-- parameters: after whole_rows, whole_ops, first_tensors, golden_leaves
-- Those of whole numbers are compared to the last bit, which the ranks' rounded norms do not tell: golden's, if near.
-- What ranks had as a DTensor is the whole tensor here, without a mesh.
-- What belongs to the bits of one rank's tensor, as a digest or counts of NaN do, is that of the whole only where the whole
-- is this tensor. An integer that a double may round is not known.
SELECT
    CAST(kept.whole_row AS INTEGER) AS row,
    whole_ops.seq,
    '' AS part,
    kept.whole_op AS op,
    kept.whole_op || if(kept.slot = '', '', '.' || kept.slot) AS name,
    kept.slot,
    kept.repeat,
    members.role,
    members.section,
    members.path,
    members.kind,
    if(members.extra LIKE '%"device_mesh"%', 'torch.Tensor', members.type) AS type,
    members.dtype,
    CASE
        WHEN members.kind <> 'tensor' THEN members.shape
        WHEN kept.made_shape IS NOT NULL THEN kept.made_shape
        WHEN kept.is_cut THEN coalesce(golden.shape, members.shape)
        ELSE members.shape
    END AS shape,
    kept.max,
    kept.min,
    if(
        lower(members.dtype) LIKE '%int%' AND abs(kept.mean - golden.mean) <= 1e-6 * abs(golden.mean),
        golden.mean,
        kept.mean
    ) AS mean,
    if(
        lower(members.dtype) LIKE '%int%' AND abs(kept.norm - golden.norm) <= 1e-6 * golden.norm,
        golden.norm,
        kept.norm
    ) AS norm,
    CASE
        WHEN kept.is_single AND kept.factor = 1 THEN members.max_int
        WHEN members.max_int IS NOT NULL AND abs(kept.max) < 2.0 ** 53 THEN CAST(kept.max AS BIGINT)
    END AS max_int,
    CASE
        WHEN kept.is_single AND kept.factor = 1 THEN members.min_int
        WHEN members.min_int IS NOT NULL AND abs(kept.min) < 2.0 ** 53 THEN CAST(kept.min AS BIGINT)
    END AS min_int,
    members.stat_types,
    coalesce(kept.whole_number, members.value) AS value,
    members.requires_grad,
    if(kept.is_single AND kept.factor = 1, members.digest, NULL) AS digest,
    members.data_name,
    kept.content,
    NULL AS content_problem,
    members.fields,
    if(members.extra LIKE '%"device_mesh"%', NULL, members.extra) AS extra,
    if(kept.is_single AND kept.factor = 1, members.wide_mean, NULL) AS wide_mean,
    if(kept.is_single AND kept.factor = 1, members.wide_norm, NULL) AS wide_norm,
    if(kept.is_single, members.nan_count, NULL) AS nan_count,
    if(kept.is_single, members.posinf_count, NULL) AS posinf_count,
    if(kept.is_single, members.neginf_count, NULL) AS neginf_count,
    if(kept.is_single, members.zero_count, NULL) AS zero_count
FROM whole_rows AS kept
JOIN whole_ops
    ON whole_ops.op = kept.whole_op
JOIN first_tensors AS members
    USING (leaf)
LEFT JOIN golden_leaves AS golden
    USING (leaf)
ORDER BY row
