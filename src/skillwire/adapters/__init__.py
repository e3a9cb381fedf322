"""What fills the ports: HTTP, files, and later stores, sandboxes and the LAN."""
