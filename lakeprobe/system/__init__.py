"""What touches the operating system: locks, exchange of folders, reading at an offset, paths into files."""
