"""Invocation over HTTP: calls are accepted, run, followed and taken back. Spec: SSP §5."""
