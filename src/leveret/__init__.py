"""Leveret: a message broker for Python teams."""
