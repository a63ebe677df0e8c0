"""What servers of every protocol share about sockets: who may come in, and by which door."""
