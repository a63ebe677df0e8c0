"""Every operation of the product, once: its rights, its place in a cluster, whether it is audited or may be re-sent.

    registry.py      the table of all operations; those of messages and definitions are done by each protocol
    operation.py     a row of it
    perform.py       operations by their names, for the adapters that take any that has a handler
    context.py       what handlers work on

The others have the operations of administrators, by resource: server, users, credentials, vhosts, policies, streams,
alerts, definitions, journal.
"""
