"""The one place that names lakeprobe's version."""

__version__ = "0.2.0"
