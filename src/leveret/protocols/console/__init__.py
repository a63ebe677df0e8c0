"""The web page for operators: its files, and the login of the user who opens it."""
