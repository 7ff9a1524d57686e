"""Measures PyTorch's trainings. Nothing of it changes a bit."""
