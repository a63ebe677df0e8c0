"""The server process: reads its options, joins broker and edges, starts and stops them."""
