"""Hostile input: guarded parsers, archives, Git's objects, certificates, hidden text and the address policy."""
