"""The command line: `leveret ...`.

bench/          `leveret bench`: measures any server that speaks AMQP 0-9-1 or SQS
doctor/         `leveret doctor`: what is in a data directory and why
top/            `leveret top`: a server as it works, in a terminal
actions.py      what commands print of the operations on users, virtual hosts, permissions and so on
audit.py        `leveret audit`: list the audit log, and check that its files are whole
cluster.py      `leveret cluster`: who is in a cluster and has which shards; let a node go, let shards move
command.py      what a command of the command line is made of: main.py has the table of them
completion.py   `leveret completion`: a script that lets a shell complete commands, actions and flags
conditions.py   the flags that say which messages are meant; `peek` and `redrive` have them
connection.py   which server a command asks, and as whom: flags win over the environment, that over a profile
consume.py      `leveret consume`: take messages from a queue, print them or hand them to a program
definitions.py  `leveret definitions import` and `export`: files of definitions as RabbitMQ writes and reads them
main.py         the command `leveret`: one table of commands
messages.py     messages as commands print them: bodies and tables for people, an object in each line for programs
numbers.py      numbers from the command line, each within its limits
objects.py      operations as commands: `leveret users add ...`
output.py       what commands print: tables for people, JSON for programs
parser.py       parsers of the command line: what they complain of is one sentence
passwords.py    passwords from the terminal or standard input: hashed here, so that they go no further
peek.py         `leveret peek`: look at messages without taking them
pipeline.py     `leveret pipeline ...`: the jobs that run on Spark
profiles.py     profiles: servers that one person uses, by name, in profiles.toml
progress.py     progress of long work: one line on the standard error stream that is written over
publish.py      `leveret publish`: send messages to a queue or through an exchange
queues.py       `leveret queues`: list, look at, make, empty, pause and delete queues
redrive.py      `leveret redrive`: move messages, mostly dead letters back to where they died
schedule.py     `leveret schedule`: messages that are due later
serve.py        `leveret serve`: run a server until a signal stops it
submit.py       what spark-submit is given: the jobs of `leveret pipeline`
tail.py         `leveret tail`: follow messages as they are published, without taking them from their queues
target.py       which broker a command is about: the server of a data directory, the directory itself
units.py        numbers for people: bytes, counts and times in a few characters
"""
