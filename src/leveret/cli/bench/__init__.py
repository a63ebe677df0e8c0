"""`leveret bench`: measures any server that speaks AMQP 0-9-1 or SQS."""
