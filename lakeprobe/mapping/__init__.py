"""Pairs names of the target with names of golden, from msprobe's mapping files, an old compare.json, or a search."""
