"""The commands: one file each, arguments and then a short run. Heavy imports are inside the functions."""
