"""Measures MindSpore's trainings in the dynamic graph (PyNative mode). Nothing of it changes a bit."""
