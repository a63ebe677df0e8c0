"""The catalog: all definitions of a cluster, its log, each node's replica, read leases and reconciliation."""
