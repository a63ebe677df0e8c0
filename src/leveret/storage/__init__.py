"""What is durable: the journal, streams, large bodies, and encryption at rest."""
