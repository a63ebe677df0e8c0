"""`leveret top`: a server as it works, in a terminal."""
