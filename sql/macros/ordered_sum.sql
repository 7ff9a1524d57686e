-- ordered_sum(number): the sum of a group, added in ascending order. The last bits of a floating-point sum depend on the
-- order of its terms, and the order of rows depends on the threads: so added, equal input gives equal bits.
-- grain: one group
CREATE OR REPLACE MACRO ordered_sum(number) AS list_sum(list(number ORDER BY number))
