"""OAuth 2.0 as a consumer speaks it; see ``SPEC.md`` for what holds."""
