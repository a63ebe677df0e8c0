"""Clients of a real cluster that write down all they do, while its parts are killed, stopped and started."""
