"""Peer links: one authenticated connection between two nodes, with streams and calls on it."""
