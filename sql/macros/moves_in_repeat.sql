-- moves_in_repeat(repeats, largest, smallest, mean, norm): whether a tensor of golden, of which these are the statistics, has others
--   in a repeat (the column statistics of noise).
CREATE OR REPLACE MACRO moves_in_repeat(repeats, largest, smallest, mean, norm) AS
list_bool_or(
    list_transform(
        repeats,
        lambda repeat: repeat.max <> largest OR repeat.min <> smallest OR repeat.mean <> mean OR repeat.norm <> norm
    )
)
