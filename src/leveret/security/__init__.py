"""Who may do what: passwords, users, permissions. No sockets, files or clocks; time is an argument."""
