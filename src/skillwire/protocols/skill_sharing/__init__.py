"""Skill Sharing Protocol: skills described, found and opened under a provider's own domain."""
