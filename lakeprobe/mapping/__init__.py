"""Which names of the target are which names of golden: as msprobe's mapping files or an old compare.json say it."""
