"""What SQLite fills: the database of one machine, and the search index."""
