"""A file per model: how its training is set up, and its defects. Each has `MODEL`."""
