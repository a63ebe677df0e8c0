"""HTTP: what SQS, REST, management and the console share, and each of them in a package of its own."""
