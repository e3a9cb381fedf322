"""What ``skillwire doctor`` looks at; see :mod:`skillwire.adapters.doctor.examine`."""
