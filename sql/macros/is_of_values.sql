-- is_of_values(evidence): whether the evidence against an op is what its values are, so that where nothing rounds differently
-- the differences themselves show it.
CREATE OR REPLACE MACRO is_of_values(evidence) AS
evidence IN ('zeros', 'stopped', 'nonfinite', 'made', 'added', 'shift')
