"""The management API of RabbitMQ, as its tools use it: one file for each resource, one table of routes."""
