-- moved_from(shift, usual, bound): how far a norm moves beyond the usual. One that rounding explains is sound, also where others
-- of its kind move, as behind a defect.
-- grain: one row
CREATE OR REPLACE MACRO moved_from(shift, usual, bound) AS
if(abs(shift) <= bound, least(abs(shift - usual), abs(shift)), abs(shift - usual))
