"""Use cases over the published skills: searching them, and later publishing, tokens and audit."""
