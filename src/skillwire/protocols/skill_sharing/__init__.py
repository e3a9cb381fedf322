"""Skill Sharing Protocol: describing, finding and opening skills under a provider's domain."""
