"""One package a protocol; none knows another."""
