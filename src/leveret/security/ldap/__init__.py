"""LDAP: a client for bind and search, groups of users as tags and permissions, and the backend for logins."""
