"""Peer links: one authenticated connection between two nodes, with streams and calls on it.

calls.py          calls of one node to another, which may take long
link.py           a link between two nodes: one connection, on which both open streams once they are authenticated
peers.py          the other nodes of a cluster, and the links to them, and the port that they connect to
wire.py           the bytes between two nodes: many streams on one connection
"""
