"""Who asks: access tokens, signed requests, what they open, and how often anyone may ask."""
