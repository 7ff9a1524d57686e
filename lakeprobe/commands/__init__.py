"""The commands, one per file: arguments, then a short run. Functions import heavy modules when they run."""
