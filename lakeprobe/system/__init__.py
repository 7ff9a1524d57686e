"""Everything that uses the operating system: locks, drafts, reads at an offset, paths into files, and the process."""
