"""State on disk: blobs, caches, locks, installed skills."""
