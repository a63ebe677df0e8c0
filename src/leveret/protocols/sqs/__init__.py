"""Amazon SQS over HTTP: the same queues, for boto3, the AWS CLI and every other SDK.

account.py             what all requests of the port for SQS share
attributes.py          the attributes of queues: one table of ranges, defaults
authorization.py       authorisation of SQS actions: the policy of the queue decides first
batch.py               the entries of a batch: how they are checked, and what is told about each
errors.py              every refusal of SQS: its name in the JSON protocol, its code in the Query protocol
loops.pyx              what a request of ten messages does for each of them, compiled
message_actions.py     DeleteMessage, ChangeMessageVisibility and their batches
message_attributes.py  message attributes: their checks and digests
move_tasks.py          move tasks: dead letters on their way back to where they died, or to another queue
queue_actions.py       the actions on queues: make and delete them, purge them, list them
queues.py              queues as SQS sees them: those of one virtual host
receive_message.py     ReceiveMessage: take messages, or wait for them, and what is told about each
send_message.py        SendMessage and SendMessageBatch: what a client says of a message, checked
service.py             the port for SQS: from a request to its action and back
settings.py            what an operator decides about the port for SQS, and the region that a request is for
wire.py                the protocols of SQS: from a request to an action with parameters, and back
"""
