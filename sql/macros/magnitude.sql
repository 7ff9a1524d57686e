-- magnitude_of(max, min): the largest magnitude of a tensor's finite elements, which scales its max and min; NULL where
-- neither is finite.
CREATE OR REPLACE MACRO magnitude_of(max, min) AS
greatest(abs(finite_part(max)), abs(finite_part(min)))
