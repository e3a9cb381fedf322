"""The ASGI application that serves a catalog."""
