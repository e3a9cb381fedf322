"""What ``skillwire doctor`` looks at; see :mod:`skillwire.adapters.checkup.examine`."""
