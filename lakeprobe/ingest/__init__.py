"""Ingest: dumps under a path become units of the lake."""

from lakeprobe.ingest.run import IngestReport, ingest

__all__ = ["IngestReport", "ingest"]
