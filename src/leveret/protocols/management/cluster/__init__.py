"""The management API on a node of a cluster: what other nodes know is asked for, and told as one broker would."""
