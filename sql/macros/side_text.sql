-- side_text: one side of a row in a few words, as leaf_text has them, with the fields and the requires_grad that the
--   other side has otherwise.
CREATE OR REPLACE MACRO side_text(kind, type, dtype, shape, value, statistic, digest, extra, requires_grad, other_type, other_extra, other_requires_grad) AS
leaf_text(kind, type, dtype, shape, value, statistic, digest)
|| coalesce(fields_text(extra, type, other_extra, other_type), '')
|| coalesce(requires_grad_text(requires_grad, other_requires_grad), '')
