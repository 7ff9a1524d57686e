-- element_type(dtype): a dtype in a spelling that both frameworks share: torch.float32, Float32 → float32.
-- Without a regular expression, which takes most of the time of a statement that asks for every row.
CREATE OR REPLACE MACRO element_type(dtype) AS
lower(
    CASE
        WHEN starts_with(dtype, 'torch.') THEN substr(dtype, 7)
        WHEN starts_with(dtype, 'mindspore.') THEN substr(dtype, 11)
        ELSE dtype
    END
)
