"""Bridges: what we publish in the forms of our neighbours, and what we take from them."""
