-- calibration(largest, others): the share of a bound that counts, of how far rounding may move a norm, where others of the kind
-- show that it is one: twice as far as the one of them that moved furthest, measured in its own bound, and no less than half.
-- Few others may lie together by chance.
CREATE OR REPLACE MACRO calibration(largest, others) AS
if(others >= 5, least(1, greatest(0.5, 2 * coalesce(largest, 1))), 1)
