"""`leveret doctor`: what is in a data directory and why, without a server and without changing a byte."""
