-- usual_shift(shift, tells): by how much norms move in ops of one kind. Inputs cut to fewer bits move all of a kind, so where
-- more than a fifth of those that tell hardly move, a defect moves the others, and the usual shift is 0. What is golden's to
-- the last bit does not tell.
-- grain: one group
CREATE OR REPLACE MACRO usual_shift(shift, tells) AS
if(quantile_cont(if(tells AND shift <> 0, abs(shift), NULL), 0.2) < 0.1 * abs(median(shift)), 0, median(shift))
