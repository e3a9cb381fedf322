"""Agent Skills Discovery 0.2.0, with 0.1.0 for old clients."""
