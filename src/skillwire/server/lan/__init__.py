"""The server on a local network: what it announces, how its skills are, and what it has heard of others."""
