"""What SQLite fills: the search index."""
