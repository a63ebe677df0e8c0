"""LDAP: a client for bind and search, groups of users as tags and permissions, and the backend for logins.

backend.py     the backend "ldap" for logins: names and passwords that a directory knows
connection.py  one connection to an LDAP server: TLS, bind and search, all of it before one deadline
directory.py   a directory as logins use it: which entry a name is, whether the password is right
filters.py     search filters (RFC 4515) as templates: `(&(objectClass=person)(uid=${username}))`
wire.py        messages of LDAPv3 (RFC 4511) in BER, as far as bind, search and StartTLS need them
"""
