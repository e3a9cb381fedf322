"""The stores of a server, in statements that SQLite and PostgreSQL both understand."""
