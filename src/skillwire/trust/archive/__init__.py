"""The strict archive reader: plan in memory, then write by directory handle."""
