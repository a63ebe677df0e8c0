"""A broker under traffic that fails now and then, and the report on it."""
