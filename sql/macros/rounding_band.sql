-- rounding_band(target, golden): up to which share of a tensor's scale two values of these dtypes are equal within float
--   noise: noise_factor spacings of the coarser dtype. An eighth is enough for any, unless one spacing is more: 16 spacings
--   of a float8 would be more than its largest value.
CREATE OR REPLACE MACRO rounding_band(target, golden) AS
least(
    getvariable('noise_factor') * greatest(epsilon_of(target), epsilon_of(golden)),
    greatest(0.125, epsilon_of(target), epsilon_of(golden))
)
