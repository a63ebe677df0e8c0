"""The server process: reads its options, joins broker and edges, starts and stops them.

addresses.py       the addresses that the server listens on
audit_forward.py   where the rows of the audit log are forwarded to, as the options say
authentication.py  the authentication that the options of a server ask for
clustered.py       the server process of a node: the proxies that clients talk to, and the shards that it owns
control.py         operations for the operator of a running server, by the control socket and by HTTP
first_user.py      the first administrator of a server, or of a cluster, without users
management.py      what the management API works on, joined
memory.py          how much memory the process has, and may have; alarms
process.py         the server process: joins broker, access, AMQP, HTTP and control, starts them
settings.py        where the options of a server come from: flags win over the environment, that over the file
tls_files.py       files of TLS, read again while the server runs
web.py             HTTP and SQS as the server joins them: one router for all behind the port of HTTP
"""
