"""Skills Protocol: skills listed, described, read and executed through one endpoint that speaks JSON-RPC 2.0."""
