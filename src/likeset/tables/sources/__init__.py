"""Where rows come from: files, databases, queries, frames; all read in blocks."""
