"""The protocols that clients speak: AMQP 0-9-1, and HTTP with REST, SQS, management, metrics and the console on it.

amqp/        AMQP 0-9-1 as bytes: frames, methods, login responses and reply codes
console/     the web page for operators: its files, and the login of the user who opens it
http/        HTTP: what SQS, REST, management and the console share, and each of them in a package of its own
management/  the management API of RabbitMQ, as its tools use it: one file for each resource, one table of routes
metrics/     what Prometheus scrapes: RabbitMQ's metrics by their names, and our own
net/         what servers of every protocol share about sockets: listeners, budgets of connections, addresses
rest/        REST: queues, messages, exchanges and bindings as JSON over HTTP, and the document that describes it
sqs/         Amazon SQS over HTTP: the same queues, for boto3, the AWS CLI and every other SDK
"""
