"""Export: a run of the lake becomes the files of another tool, so that the other tool reads it."""

from lakeprobe.export.msprobe import ExportedUnit, ExportReport, export

__all__ = ["ExportReport", "ExportedUnit", "export"]
