"""Compare: two runs held against each other by a rule, (step, rank) by (step, rank)."""
