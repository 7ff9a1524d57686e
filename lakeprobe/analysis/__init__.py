"""Answers questions about a finished comparison or a run, each with the queries of a folder in sql/analysis."""
