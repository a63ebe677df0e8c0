"""HTTP: what SQS, REST, management and the console share, and each of them in a package of its own.

async_broker.py  the broker as handlers of HTTP use it: in the thread of the loop
auth.py          credentials of a request: a name and a password (Basic), an API key or a JSON Web Token (Bearer)
bulk.py          operations on many messages at once: what the audit log says of which messages they are about
chunked.pyx      decodes a chunked body, and refuses what is not exactly RFC 9112
cluster.py       what an endpoint adds to the scope of its operation on a node of a cluster
connection.py    one connection: requests in, answers out in the same order, one handler at a time
fields.py        fields of a request: each reads its value, and describes itself in the OpenAPI document
idempotency.py   requests with an Idempotency-Key: done once
limits.py        what one client may ask of an HTTP server, how often
origins.py       keeps pages of other origins from using this server through the browser of a user
problem.py       refusals as RFC 9457 has them: application/problem+json, by one table from the errors of the core
reader.pyx       bytes to requests: llhttp reads heads, this finds their ends
request.py       a request as handlers see it: what was sent, decoded only where asked for
response.py      answers, the bytes that they become, and how those are written
router.py        which function answers which request: one table
server.py        an HTTP server in an event loop: listeners, connections
sessions.py      logins of browsers: a cookie that no script can read
tails.py         requests that read streams and wait at their end
"""
