"""The local network: sockets, mDNS, probes, and what is kept, around the pure core of Skill Discovery."""
