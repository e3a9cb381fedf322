"""Skills Protocol: listing, describing, reading and executing skills through one JSON-RPC 2.0 endpoint."""
