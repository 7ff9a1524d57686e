-- are_far_apart(target_norm, golden_norm, target_max, golden_max, target_min, golden_min): whether recorded statistics of two
--   tensors differ by more than any rounding of the same elements: by a tenth, and by 1e-12, since squares of tiny numbers
--   vanish in float32. False where they are not finite. The norm of a single number may have its sign.
CREATE OR REPLACE MACRO are_far_apart(target_norm, golden_norm, target_max, golden_max, target_min, golden_min) AS
coalesce(
    abs(finite_part(abs(target_norm) - abs(golden_norm))) > greatest(1e-12, 0.1 * greatest(abs(target_norm), abs(golden_norm))),
    false
)
OR coalesce(
    greatest(abs(finite_part(target_max - golden_max)), abs(finite_part(target_min - golden_min)))
    > greatest(1e-12, 0.1 * greatest(magnitude_of(target_max, target_min), magnitude_of(golden_max, golden_min))),
    false
)
