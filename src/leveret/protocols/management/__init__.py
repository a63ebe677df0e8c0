"""The management API of RabbitMQ, as its tools use it: one file for each resource, one table of routes.

alerts.py        alerts: what is wrong now, rules, silences, history and receivers
bindings.py      bindings: between an exchange and a queue or another exchange
call.py          one request as endpoints see it: the user, what the path names, and the body as checked JSON
clients.py       connections, channels and consumers: listed, looked at and closed
context.py       what the management API works on: the broker, access, clients
dead_letters.py  dead letters of a virtual host, counted by where they lie, why they died at last
definitions.py   definitions as files: everything or one virtual host given out, and taken in again
exchanges.py     exchanges: listed, looked at, made, deleted, and where a message would go
handler.py       the handler of everything under /api: finds the endpoint, authenticates, checks the rule
health.py        health checks: 200 when all is well, 503 with the reason otherwise
listing.py       lists: filtered by name, sorted, cut into pages, reduced to some columns
merging.py       how endpoints make one answer of those of all nodes, or of several shards
messages.py      messages: published to exchanges, taken from queues, moved, listed while unacked or not due yet
overview.py      what a server is and has: totals, rates, features, nodes and their cluster
policies.py      policies, those of operators, and parameters
queues.py        queues: listed, looked at, made, deleted, purged; single messages are in messages.py
rates.py         how fast things happen: counters looked at every few seconds
refusals.py      refusals as RabbitMQ's management API has them: {"error": a word, "reason": a sentence}
reports.py       reports that `leveret pipeline report` has left in the directory of reports
routes.py        every endpoint: its operation
users.py         users, with their permissions and limits, and the limits of virtual hosts
vhosts.py        virtual hosts, with what is in them
"""
