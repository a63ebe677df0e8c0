"""The command line: `leveret ...`.

bench/          `leveret bench`: measures any server that speaks AMQP 0-9-1 or SQS
doctor/         `leveret doctor`: what is in a data directory and why
top/            `leveret top`: a server as it works, in a terminal
actions.py      what commands print of the operations on users, virtual hosts, permissions and so on
audit.py        `leveret audit`: list the audit log, and check that its files are whole
cluster.py      `leveret cluster`: who is in a cluster and has which shards; let a node go, let shards move
completion.py   `leveret completion`: a script that lets a shell complete commands, actions and flags
config.py       `leveret config`: the options of a server as a file and the environment give them
connection.py   which server a command asks, and as whom: flags win over the environment, that over a profile
consume.py      `leveret consume`: take messages from a queue, print them or hand them to a program
definitions.py  `leveret definitions import` and `export`: files of definitions as RabbitMQ writes and reads them
listings.py     `leveret exchanges`, `connections` and so on: what the management API lists
main.py         the command `leveret`: one table of commands
messages.py     messages as commands print them: bodies and tables for people, an object in each line for programs
objects.py      operations as commands: `leveret users add ...`
output.py       what commands print: tables and short numbers for people, JSON for programs
parser.py       parsers of the command line, and what commands are made of
passwords.py    passwords from the terminal or standard input: hashed here, so that they go no further
peek.py         `leveret peek`: look at messages without taking them
pipeline.py     `leveret pipeline ...`: the jobs that run on Spark
publish.py      `leveret publish`: send messages to a queue or through an exchange
queues.py       queues: listed, looked at, made, deleted, purged; single messages are in messages.py
redrive.py      `leveret redrive`: move messages, mostly dead letters back to where they died
schedule.py     `leveret schedule`: messages that are due later
serve.py        `leveret serve`: run a server until a signal stops it
submit.py       what spark-submit is given: the jobs of `leveret pipeline`
tail.py         `leveret tail`: follow messages as they are published, without taking them from their queues
target.py       which broker a command is about: the server of a data directory, the directory itself
"""
