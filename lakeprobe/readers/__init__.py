"""Readers: each turns one dump format into Arrow tables. A reader knows its format and nothing of the lake."""
