"""Commit batches appended once and durable before they are confirmed."""
