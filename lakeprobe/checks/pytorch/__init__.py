"""Ops of PyTorch, run again. Only worker processes import this."""
