"""Journals of what is collected, and the units made of them. They connect collecting to the lake."""
