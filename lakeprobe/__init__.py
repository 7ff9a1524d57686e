"""lakeprobe: training dumps into a Parquet lake, two runs held against each other in SQL."""

from lakeprobe.version import __version__

__all__ = ["__version__"]
