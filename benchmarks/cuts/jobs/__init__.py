"""Small jobs that are cut as others write it, one a file, each with its whole program and its defects.

None of them knows of another, of `model.py` or of how layouts are inferred: names, order of calls and collectives are
each author's own.
"""
