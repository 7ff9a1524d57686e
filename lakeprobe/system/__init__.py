"""Everything that uses the operating system: locks, drafts, exchange of folders, reading at an offset, paths into
files."""
