"""Frames appended once and durable before they are confirmed."""
