"""skillwire: publish a folder of skills once; have it found, verified, installed and called everywhere."""
