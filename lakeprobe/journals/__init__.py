"""Journals of what was collected, and the units that are made of them: between collecting and the lake."""
