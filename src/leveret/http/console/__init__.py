"""The web page for operators: its files, and the login of whoever opens it."""
