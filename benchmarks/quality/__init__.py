"""Parts of the comparison of summaries: markets, methods, judging, report, picture."""
