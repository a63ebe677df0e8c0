"""The Python client of a server: the verbs of the embedded broker over HTTP, for threads and for asyncio."""
