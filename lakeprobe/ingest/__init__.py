"""Ingest: turns dumps under a path into units of the lake."""

from lakeprobe.ingest.run import IngestReport, ingest

__all__ = ["IngestReport", "ingest"]
