"""Authentication: access tokens, signed requests, authorization and rate limits."""
