"""Ops of MindSpore, run again. Only worker processes import this."""
