"""Three nodes on one machine: to be tried out, and to see what clients notice when one of them is killed."""
