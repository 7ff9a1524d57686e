"""The lake: where units and comparisons lie on disk, how they are put there, and the SQL views over them."""
