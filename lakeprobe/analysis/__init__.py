"""Analysis: questions to a finished comparison or run, each a query in sql/analysis."""
