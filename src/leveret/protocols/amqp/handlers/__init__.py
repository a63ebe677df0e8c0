"""What each method does: one file for each AMQP class, a table from the method's type to its function.

basic.py       basic.*: what is not about the messages themselves: qos, consume, cancel, get, recover
channel.py     what is about a channel as a whole: channel.*, confirm.* and tx.*; channel.open is the connection's
connection.py  channel 0: which methods a connection takes in which state
exchange.py    exchange.*: declare, delete, bind, unbind
queue.py       queue.*: declare, bind, unbind, purge, delete
"""
