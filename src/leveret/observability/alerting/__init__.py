"""Watching a broker at work: rules on figures of queues, who is told when one is broken, and who wants silence."""
