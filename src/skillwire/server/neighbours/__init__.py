"""What a server answers in the forms of its neighbours, where its operator wants that."""
