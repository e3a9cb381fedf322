"""Simulations for tests, ours and our users'."""
