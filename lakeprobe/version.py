"""The one place that names lakeprobe's version."""

__version__ = "0.1.0"
