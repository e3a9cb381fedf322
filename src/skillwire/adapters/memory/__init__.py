"""Ports filled within this process."""
