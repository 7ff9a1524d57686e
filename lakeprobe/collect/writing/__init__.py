"""The writing side of collecting: a journal in the training process, and units of the lake made of it."""
