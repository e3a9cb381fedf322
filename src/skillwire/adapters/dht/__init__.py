"""The DHT: sockets, files and tasks around the pure node of Skill Discovery."""
