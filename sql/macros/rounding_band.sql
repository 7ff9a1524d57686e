-- rounding_band(spacing): up to which share of a tensor's scale two values are equal within float noise: noise_factor
--   spacings of the coarser dtype (epsilon_of). An eighth is enough for any, unless one spacing is more: 16 spacings of a
--   float8 would be more than its largest value.
CREATE OR REPLACE MACRO rounding_band(spacing) AS
least(getvariable('noise_factor') * spacing, greatest(0.125, spacing))
