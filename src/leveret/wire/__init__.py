"""AMQP 0-9-1 on the wire, for either side of a connection: frames, methods and reply codes.

codec.py    method objects to bytes and back
frames.pyx  frames, cut out of a growing input buffer and written into a growing output buffer
methods.py  the methods of AMQP 0-9-1 with RabbitMQ's extensions, as objects
replies.py  reply codes: what they are called, how far they reach
"""
