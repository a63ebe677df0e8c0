"""HTTP of a node: requests are answered by the shard, or by the node, that has the resource.

dispatcher.py         runs each operation where the registry says, and shows queues as their shards describe them
forwarder.py          brings requests to the shard or node that answers them, and the answers back
handler.py            the owner's end of a forwarded request: the APIs of shards and nodes, and the answer
logins.py             logins of browsers on all nodes: a logout on one node ends the session on all
management.py         the management API of a node and of its shards
remote_operations.py  operations of the operator on what only shards or other nodes have
request.py            requests that a node forwards to the node that answers them: a stream of their link for each
rest.py               REST on a node: requests are authorised, audited and dispatched here
shard_edges.py        the APIs of one shard: the same code as on a single server, over the broker of the shard
sqs.py                SQS on a node: signatures are verified, and requests counted and dispatched here
"""
