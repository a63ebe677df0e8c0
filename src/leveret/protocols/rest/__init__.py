"""REST: queues, messages, exchanges and bindings as JSON over HTTP, and the document that describes it."""
