-- distance_of(max, min, norm, other_max, other_min, other_norm): how far the statistics of two tensors are apart, by those
-- that are numbers on both sides.
CREATE OR REPLACE MACRO distance_of(max, min, norm, other_max, other_min, other_norm) AS
coalesce(finite_part(abs(max - other_max)), 0) + coalesce(finite_part(abs(min - other_min)), 0)
+ coalesce(finite_part(abs(norm - other_norm)), 0)
