"""OAuth2 and OpenID Connect with a real provider: tokens in every protocol, and logins of browsers."""
