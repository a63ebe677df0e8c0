"""The broker runtime: the lock, the clock and the group commit around the core, and what waits for them."""
