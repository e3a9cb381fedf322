"""What runs skills: each module fills :class:`skillwire.ports.Executor` for one kind of executor."""
