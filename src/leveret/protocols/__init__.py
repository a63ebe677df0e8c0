"""The protocols that clients speak: AMQP 0-9-1, and HTTP with REST, SQS, management, metrics and the console on it."""
