"""The lake: the layout of units and comparisons on disk, how they are put there, and the SQL views over them."""
