-- place_after(target_seq, golden_before, golden_seq): the place in the target of an op that golden alone has: after the
--   paired op before it (NULL: before all) and before the next one. Ops that follow the same one have different places,
--   in golden's order.
CREATE OR REPLACE MACRO place_after(target_seq, golden_before, golden_seq) AS
coalesce(target_seq, -1) + 1 - 1 / (1 + golden_seq - coalesce(golden_before, -1))
