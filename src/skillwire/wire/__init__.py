"""The shapes of a pure core that talks."""
