-- kin_spread(shift): how far the norms of products of other kinds scatter that one of few of its kind is held against: wider where
-- they are few, which may lie together by chance, and no less than a quarter of their median, which cut inputs make.
-- grain: one group
CREATE OR REPLACE MACRO kin_spread(shift) AS
greatest((1 + 8 / count(*)) * 1.4826 * mad(shift), abs(median(shift)) / 4)
