-- element_type(dtype): a dtype in a spelling that both frameworks share: torch.float32, Float32 → float32.
CREATE OR REPLACE MACRO element_type(dtype) AS
lower(regexp_replace(dtype, '^(torch|mindspore)\.', ''))
