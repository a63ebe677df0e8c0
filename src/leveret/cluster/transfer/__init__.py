"""Cross-shard transfer: a transactional outbox, and a sender for each destination."""
