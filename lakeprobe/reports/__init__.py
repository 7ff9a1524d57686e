"""Reports: each shows a finished comparison in one form. A report only shows; SQL has decided everything."""
