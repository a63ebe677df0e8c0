"""What an operator does to a broker: verbs on users, virtual hosts, permissions and policies, by name and by JSON."""
