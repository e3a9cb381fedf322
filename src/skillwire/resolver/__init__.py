"""From what a user typed to the one skill that is meant: references, sources, policy, cache rules."""
