"""Where the code of skills runs; see :mod:`skillwire.adapters.sandbox.sandbox`."""
