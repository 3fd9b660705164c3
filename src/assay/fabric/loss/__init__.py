"""Packet loss and jitter: what they leave of a connection's rate, and what a collective waits for."""
