"""The writing side of collecting: a journal in the training process, which becomes units of the lake."""
