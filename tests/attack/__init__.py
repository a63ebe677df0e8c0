"""Floods from one address against a real server, and what clients from another address notice: `make attack`."""
