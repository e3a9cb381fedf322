"""Lint rules, by what they look at; :mod:`skillwire.folder.rules` has a row for each."""
