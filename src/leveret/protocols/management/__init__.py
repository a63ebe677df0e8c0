"""The management API of RabbitMQ, as its tools use it: one file for each resource, one table of routes.

alerts.py        alerts: what is wrong now, rules, silences, history and receivers
bindings.py      bindings: between an exchange and a queue or another exchange
call.py          one request as endpoints see it: the user, what the path names, and the body as checked JSON
clients.py       connections, channels and consumers: listed, looked at and closed
context.py       what the management API works on: the broker, access, clients
dead_letters.py  dead letters of a virtual host, counted by where they lie, why they died at last
definitions.py   definitions as files: everything or one virtual host given out, and taken in again
exchanges.py     exchanges: listed, looked at, made, deleted; publishing to one is in publishes.py
features.py      what RabbitMQ has switches for: features that are always on here, and old ones that are not there
gets.py          messages that an operator takes by hand, to look at them or to have them
handler.py       the handler of everything under /api: finds the endpoint, authenticates, checks the rule
health.py        health checks: 200 when all is well, 503 with the reason otherwise
leases.py        unacked messages and their consumers; RabbitMQ only counts them
limits.py        limits of virtual hosts and of users: how many connections, channels and queues
listing.py       lists: filtered by name, sorted, cut into pages, reduced to some columns
merging.py       how endpoints make one answer of those of all nodes, or of several shards
moves.py         moving messages from a queue to another, which RabbitMQ leaves to shovels
multipart.py     the file in a form that a browser sends (multipart/form-data), and the other fields of that form
nodes.py         nodes: this process, and the other nodes by asking them
operations.py    operations on a cluster, and its state
overview.py      the overview: versions, totals and rates of the broker
parameters.py    parameters: global ones are kept for tools
permissions.py   permissions of users in virtual hosts, and on the keys of topic exchanges
policies.py      policies, and those of operators: the same endpoints for both
probes.py        where would this key go? The queues that a message would reach
publishes.py     a message that an operator publishes by hand
queues.py        queues: listed, looked at, made, deleted, purged; single messages are in gets.py and moves.py
rates.py         how fast things happen: counters looked at every few seconds
refusals.py      refusals as RabbitMQ's management API has them: {"error": a word, "reason": a sentence}
reports.py       reports that `leveret pipeline report` has left in the directory of reports
routes.py        every endpoint: its operation
routing.py       the routing of a virtual host as a graph
rules.py         what the tags of a user allow in the management API, with RabbitMQ's reasons of refusals
scheduled.py     messages of a virtual host that are not due yet, whichever queue they wait in
shard_rates.py   how fast things happen on a node of a cluster
storage.py       what a node keeps on its disk, and which versions of what it is made of
users.py         users: names, tags, limits, and passwords as hashes
validation.py    refusals of policies and limits in RabbitMQ's words
values.py        properties of messages as RabbitMQ's JSON has them
vhosts.py        virtual hosts, with what is in them
"""
