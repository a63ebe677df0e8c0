"""What servers of every protocol share about sockets: listeners, budgets of connections, addresses.

addresses.py       addresses as people write them and nodes tell them: host:port, an address of IPv6 in brackets
admission.py       budgets of connections: of a protocol, of one address
listener.py        a socket that listens: takes clients in, a bounded number in each turn of the loop
proxy_protocol.py  the PROXY protocol, version 2
"""
