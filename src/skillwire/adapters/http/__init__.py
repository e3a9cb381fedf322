"""The two drivers of an exchange, synchronous and asynchronous, over one address policy."""
