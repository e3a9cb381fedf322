"""The Skills Protocol on a server: JSON-RPC over HTTP and over standard input and output, and blobs as they are."""
