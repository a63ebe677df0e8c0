"""The broker as a state machine: no sockets, files, threads or clocks; time is an argument."""
