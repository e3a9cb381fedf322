"""Frozen values that every layer shares."""
