"""What operators see of a running broker."""
