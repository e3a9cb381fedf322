"""Calling skills: what is accepted, how it is run, what is said of it. Without input or output, and without a clock."""
