"""REST: queues, messages, exchanges and bindings as JSON over HTTP, and the document that describes it.

api.py           the API as a table of routes, made of the operations of each resource
exchanges.py     /exchanges: list, make, delete, bind, publish
groups.py        /streams/{stream}/groups: members come, read, commit and go; operators look, reset and delete
leases.py        taking messages and settling them: dequeue, acknowledge, nack, reject, finish, visibility
messages.py      messages of a queue: send, look at, cancel, redrive and discard them
openapi.py       the OpenAPI document, made of the same rows that route and check requests
operation.py     an operation of the API: the one row from which it is routed, checked, audited and described
queues.py        /queues: list, make, look at, delete, purge, pause
reservations.py  reading many messages of a queue, in pages
shapes.py        messages as JSON: what comes in becomes an Outgoing, what goes out becomes an object
sinks.py         /sinks: batches of many messages that are published as a whole and once
streams.py       streams and their records: declare, append, read from any place
"""
