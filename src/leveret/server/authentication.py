"""The authentication that the options of a server ask for: the chain of backends, and logins at an OAuth2 provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.security.access import Access
from leveret.security.authentication import BACKENDS, Authentication, Backend, Internal
from leveret.security.claims import ClaimRules, parse_aliases
from leveret.security.failures import Failures

if TYPE_CHECKING:
    from leveret.security.oidc import BrowserLogin
    from leveret.security.web_tokens import WebTokens


class OAuth(NamedTuple):
    """What a server does with the tokens of an issuer."""

    tokens: WebTokens
    login: BrowserLogin | None
    """Logs people in to the console, if the server is registered at the provider."""


def backend_names(options: ServerOptions) -> tuple[str, ...]:
    """The backends in their order. By default web tokens first: what has not their form is refused at no cost."""
    if options.auth_backends is None:
        names: tuple[str, ...] = ("oauth2", "internal") if options.oauth_issuer else ("internal",)
    else:
        names = tuple(each.strip() for each in options.auth_backends.split(","))
    if len(set(names)) != len(names) or not set(names) <= set(BACKENDS):
        raise InvalidArgument(
            f"auth_backends is a list by commas of {', '.join(BACKENDS)}, each once, not {options.auth_backends!r}"
        )
    if "oauth2" in names and not options.oauth_issuer:
        raise InvalidArgument("auth_backends has oauth2, but no issuer is given: give oauth_issuer")
    for name in ("oauth_keys", "oauth_client_id"):
        if getattr(options, name) and not options.oauth_issuer:
            raise InvalidArgument(f"{name} is given without oauth_issuer: give both, or none")
    return names


def authentication_of(
    options: ServerOptions, access: Access, token_failures: Failures | None = None, oauth: OAuth | None = None
) -> Authentication:
    """The chain of a server."""
    backends = [_backend(name, access, oauth or oauth_of(options)) for name in backend_names(options)]
    return Authentication(access, backends, token_failures)


def _backend(name: str, access: Access, oauth: OAuth | None) -> Backend:
    if name == "internal":
        return Internal(access)
    assert oauth is not None, "an issuer is given: see backend_names"
    from leveret.security.web_tokens import OAuth2

    return OAuth2(oauth.tokens)


def oauth_of(options: ServerOptions) -> OAuth | None:
    """What is done with tokens of the issuer, if one is given; nothing is asked of it yet."""
    issuer = options.oauth_issuer
    if issuer is None or "oauth2" not in backend_names(options):
        return None
    try:
        import leveret.security.oidc as oidc
        from leveret.security.fetch import Fetcher
        from leveret.security.jwks import Jwks
        from leveret.security.web_tokens import Issuer, WebTokens
    except ImportError:
        raise InvalidArgument("web tokens need a library: pip install 'leveret[oauth]'") from None
    fetcher = Fetcher(options.oauth_ca)
    provider = None if options.oauth_keys and options.oauth_client_id is None else oidc.Provider(issuer, fetcher)
    if provider is None or options.oauth_keys:
        assert options.oauth_keys is not None, "one of both is there"
        keys = Jwks(options.oauth_keys, fetcher.get if "://" in options.oauth_keys else None)
    else:
        keys = Jwks(provider.jwks_uri, fetcher.get)
    tokens = WebTokens(Issuer(issuer=issuer, rules=_rules(options)), keys)
    if options.oauth_client_id is None or provider is None:
        return OAuth(tokens, None)
    registration = oidc.Registration(
        client_id=options.oauth_client_id, client_secret=options.oauth_client_secret, scopes=options.oauth_scopes
    )
    return OAuth(tokens, oidc.BrowserLogin(provider, tokens, fetcher, registration))


def _rules(options: ServerOptions) -> ClaimRules:
    return ClaimRules(
        resource_server_id=options.oauth_resource_server_id,
        scope_prefix=options.oauth_scope_prefix,
        scope_aliases=parse_aliases(options.oauth_scope_aliases or ""),
        additional_scopes_keys=_listed(options.oauth_additional_scopes_key),
        username_claims=_listed(options.oauth_username_claims),
    )


def _listed(given: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (given or "").split(",") if each.strip())
