-- perturbation_status(mode, is_consistent): what a change of the inputs says of an op.
CREATE OR REPLACE MACRO perturbation_status(mode, is_consistent) AS
CASE
    WHEN is_consistent IS NULL THEN 'skip'
    WHEN is_consistent THEN 'stable'
    WHEN mode = 'no_change' THEN 'random'
    WHEN mode = 'to_cpu' THEN 'differs'
    ELSE 'unstable'
END
