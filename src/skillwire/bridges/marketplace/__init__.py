"""Marketplaces of Claude: ``marketplace.json``, read and written."""
