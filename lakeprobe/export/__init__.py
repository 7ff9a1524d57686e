"""Export: writes a run of the lake as the files of another tool."""

from lakeprobe.export.msprobe import ExportedUnit, ExportReport, export

__all__ = ["ExportReport", "ExportedUnit", "export"]
