"""What Prometheus scrapes: RabbitMQ's metrics by their names, and our own."""
