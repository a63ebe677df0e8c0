"""AMQP 0-9-1 as bytes: frames, methods, login responses and reply codes, without sockets and without a broker."""
