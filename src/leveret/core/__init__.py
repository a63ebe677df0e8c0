"""The broker as a state machine: no sockets, files, threads or clocks; time is an argument.

exchanges/             the exchange types, one file each; `new_exchange` picks the class by its name on the wire
arguments.py           queue arguments and policy keys in one table
broker.py              the broker, composed of its parts: the operations on queues, exchanges, bindings and policies
browse.pyx             browsing: looking into a queue without taking anything
changes.py             changes of definitions as values: they can be applied at once, or later
claims.pyx             leases that outlive a restart of the broker, or the owner of their queue
consumer.pyx           a consumer: a queue pushes messages to it, as many at a time as it can take
consumer_arguments.py  arguments of consumers: priority and time to settle, or what to read of a stream
consumer_groups.py     consumer groups: how far each group has read each partition of a stream
dead_lettering.pyx     dead-lettering of what queues reject or drop, and the removal of what has expired
deadletter.py          what a message carries when it is dead-lettered, and the keys that it is routed by
dedup.py               de-duplication on publish: which keys a queue has seen within its window
definition_log.py      the definitions of a broker in its journal
dispatch.pyx           pushing to consumers: which consumer gets the next message of a queue
engine.pyx             what all queues of a broker share: sequence numbers, time, the time index and the journal
errors.py              every error of Leveret: a closed set, so that each edge can map it by one table
expiries.pyx           the one timer of a queue, and the expiries of its messages that are out of order
filters.py             which messages of a queue browse, redrive and discard mean
held.pyx               a message that does not wait in a lane: delayed, requeued or leased
histogram.pyx          counts of values by powers of two: how long messages waited, how long a sync took
ids.pyx                message ids: a UUID (version 8) of the 60 bits of the broker and the number of the message
jsonable.py            argument values as JSON and back: what JSON lacks is tagged
lane.pyx               a lane: waiting messages in the order of their numbers, 26 bytes each
message.pyx            a message: the wire bytes of its properties and body
names.py               names of exchanges, queues and virtual hosts
outcomes.py            what becomes of messages, by one definition for counters, alerts, metrics and reports
page.py                a page: messages of a queue in columns, for readers of many
pages.pyx              a page of a lane: up to 4,096 cells that count from its first message
parameters.py          global parameters: small values under a name that tools keep in the broker
patterns.py            patterns that clients and operators write, matched in linear time by RE2
policy.py              policies: settings that apply to queues and exchanges by a pattern of their names
ports.pyx              the two sides of the line between the broker and its journal
properties.pyx         the 14 properties of an AMQP message and the content header that carries them
publish.pyx            publishing: from a message to the queues that take it
queue.pyx              a queue: messages that wait, messages that are held, and the rules between them
queue_types.py         what quorum queues and streams do not do and classic queues do
ready.pyx              what can be taken from a queue now, and in which order
reservations.py        reservations: messages of a queue that a group of readers has for itself
restore.pyx            replay of journal entries and checkpoints, compaction
returned.pyx           messages that were given back, in the order of their places
routing.py             where a message goes: exchange after exchange, each visited once
snapshots.pyx          a checkpoint of the broker: definitions as JSON, lanes as they are in memory
streams.pyx            the line between the core and streams: a recorder takes messages, a cursor reads them
switch.pyx             a flag that many compiled objects share: one of them turns it on or off
tables.pyx             AMQP 0-9-1 field tables, read as RabbitMQ reads them
tally.pyx              the counters of queues as columns, and their sums
timers.pyx             the one time index: lease deadlines, delays, expiry, idle queues
topology.py            virtual hosts: which exchanges, queues and bindings exist
tracing.pyx            which messages are traced, and the listener of their lives
"""
