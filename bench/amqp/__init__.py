"""The AMQP benchmark: the load generator in C (load/), the brokers it is run against, the cases and the table."""
