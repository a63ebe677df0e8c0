"""Authentication and authorisation: passwords, tokens, certificates, users and permissions.

No sockets or clocks, but for clients of identity providers; time is an argument.

    ldap/                   LDAP: a client for bind and search, groups of users as tags and permissions
    access.py               users, permissions and limits that last
    authentication.py       authentication: a chain of backends turns a name and a password, or a bearer token
    authorisation.py        authorisation: the rules of operations, and the one function that every protocol asks
    cluster_secret.py       the secret that the nodes of a cluster share, and the keys that are derived from it
    der.py                  DER, as far as certificates and revocation lists need it
    distinguished_names.py  distinguished names as text (RFC 4514): those of certificates, and those of LDAP
    fetch.py                requests to an OAuth2 provider: https only, or this machine; bounded in size and in time
    identity.py             the identity of a client: a user, its tags, and what the token that it came with allows
    jwks.py                 the keys that tokens of an issuer are signed with
    keys.py                 API keys, which are tokens that a user makes for a program, and access keys
    logins.py               login attempts of every protocol: limits on failures, and the threads that hash passwords
    oidc.py                 an OpenID Connect provider: its endpoints by discovery
    passwords.py            passwords as they are stored: what is needed to check one, never the password
    peers.py                whether a login comes from this machine
    permissions.py          permissions: three patterns for each user in each virtual host
    revocation.py           certificate revocation lists (RFC 5280) in PEM
    scopes.py               scopes of tokens and API keys: what they allow
    sigv4.pyx               Signature Version 4, as AWS clients sign requests
    tls.py                  TLS of servers, of clients and between nodes
    users.py                users: their names, tags, limits and passwords
    web_tokens.py           JSON Web Tokens of an OAuth2 issuer: verified, and their claims turned into an Identity
"""
