"""Scripts that are written out for one op. They import nothing of lakeprobe."""
