"""Every operation of the product, once: its rights, its place in a cluster, whether it is audited or may be re-sent.

alerts.py       alerts: rules, receivers, silences, and what happened
context.py      what the handlers of operations work on
credentials.py  access keys, which sign requests to the port for SQS
definitions.py  definitions as RabbitMQ's JSON files have them, a section at a time
journal.py      the journal: its segments, and the key that encrypts it
operation.py    a row of the table of operations, and the rules that rows have in common
perform.py      operations by their names, for the adapters that take any that has a handler
policies.py     policies and those of operators, and parameters
registry.py     the table of all operations: what each needs, where it is done in a cluster
reservations.py  what groups of readers, such as queries of Spark, have reserved of queues
server.py       the server as a whole: its state, its audit log, and the cluster that it is a node of
streams.py      streams and their consumer groups
users.py        users, their limits, and what they may do in virtual hosts
vhosts.py       virtual hosts
"""
