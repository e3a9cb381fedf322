"""Hostile input: guarded parsers, the archive reader, the address policy, digests."""
