"""Bridges: published skills in the forms of other ecosystems, and skills imported from them."""
