"""Every operation of the product, once: its rights, its place in a cluster, whether it is audited or may be re-sent.

registry.py    the table of all operations
"""
