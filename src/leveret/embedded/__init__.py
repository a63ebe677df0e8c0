"""The broker inside a process: the verbs of the core for threads and asyncio, on memory or files."""
