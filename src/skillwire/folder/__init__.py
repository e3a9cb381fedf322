"""A skill on disk: read it, check it, pack it."""
