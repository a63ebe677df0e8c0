"""Cross-shard transfer: a transactional outbox, and a sender for each destination.

destination_sender.py  sends the outbox messages of one destination: a shard, or a queue that may be full
message.py             an outbox message: a dead letter, or a message that is moved to a queue of another shard; batches
outbox.py              the outbox of a shard: dead letters for queues of other shards
"""
