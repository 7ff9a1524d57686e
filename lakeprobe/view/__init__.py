"""Shows a comparison or a run as pictures: a page for the browser, tb-graph-ascend's database, cells of a notebook.

`levels` judges the rows once for all of them, `unit` reads one (step, rank), `tree` finds its hierarchy of modules.
"""
