"""`leveret bench`: measures any server that speaks AMQP 0-9-1 or SQS.

amqp.py     load for AMQP 0-9-1: one connection publishes with confirms, another consumes; the bytes that this needs
command.py  `leveret bench`: rates and latencies of a server, from one publisher and one consumer
plan.py     what is measured, for how long, and what came of it
sqs.py      load for SQS: one connection sends batches of ten, another receives and deletes them
"""
