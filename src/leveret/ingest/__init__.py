"""Batches of messages that are published as a whole and once: staged in pieces, decided on, then rolled forward."""
