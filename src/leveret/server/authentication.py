"""The authentication that the options of a server ask for: the chain of backends, and logins at an OAuth2 provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.observability.logs import Log
from leveret.security.access import Access
from leveret.security.authentication import BACKENDS, Authentication, AuthenticationBackend, Internal
from leveret.security.ldap.backend import Ldap
from leveret.security.ldap.connection import LdapServer, is_local
from leveret.security.ldap.directory import USER_DN, USERNAME, LdapDirectory, LdapServers, Rules
from leveret.security.ldap.filters import parse
from leveret.security.logins import Failures
from leveret.security.tls import ClientTls

if TYPE_CHECKING:
    from leveret.security.oidc import BrowserLogin
    from leveret.security.web_tokens import ClaimRules, WebTokens

LOG = Log("server")


class OAuth(NamedTuple):
    """What a server does with the tokens of an issuer."""

    tokens: WebTokens
    login: BrowserLogin | None
    """Logs people in to the console, if the server is registered at the provider."""


def backend_names(options: ServerOptions) -> tuple[str, ...]:
    """The backends in their order. By default web tokens first: what has not their form is refused at no cost."""
    if options.auth_backends is None:
        given = {"oauth2": options.oauth_issuer, "internal": True, "ldap": options.ldap_urls}
        names: tuple[str, ...] = tuple(name for name, is_given in given.items() if is_given)
    else:
        names = tuple(each.strip() for each in options.auth_backends.split(","))
    if len(set(names)) != len(names) or not set(names) <= set(BACKENDS):
        raise InvalidArgument(
            f"auth_backends is a list by commas of {', '.join(BACKENDS)}, each once, not {options.auth_backends!r}"
        )
    if "oauth2" in names and not options.oauth_issuer:
        raise InvalidArgument("auth_backends has oauth2, but no issuer is given: give oauth_issuer")
    if "ldap" in names and not (options.ldap_urls and options.ldap_mapping):
        raise InvalidArgument("the backend ldap needs ldap_urls, and ldap_mapping with what groups may do: give both")
    for name in ("oauth_keys", "oauth_client_id"):
        if getattr(options, name) and not options.oauth_issuer:
            raise InvalidArgument(f"{name} is given without oauth_issuer: give both, or none")
    return names


def authentication_of(
    options: ServerOptions, access: Access, token_failures: Failures | None = None, oauth: OAuth | None = None
) -> Authentication:
    """The chain of a server."""
    backends = [_backend(name, options, access, oauth or oauth_of(options)) for name in backend_names(options)]
    return Authentication(access, backends, token_failures)


def _backend(name: str, options: ServerOptions, access: Access, oauth: OAuth | None) -> AuthenticationBackend:
    if name == "internal":
        return Internal(access)
    if name == "ldap":
        return ldap_of(options)
    assert oauth is not None, "an issuer is given: see backend_names"
    from leveret.security.web_tokens import OAuth2

    return OAuth2(oauth.tokens)


def ldap_of(options: ServerOptions) -> Ldap:
    """The backend of a directory; nothing is asked of it yet."""
    assert options.ldap_mapping is not None, "it is given: see backend_names"
    servers = [LdapServer.parse(url, options.ldap_starttls) for url in _listed(options.ldap_urls)]
    for server in servers:
        if not (server.is_encrypted or options.ldap_plain_remote or is_local(server.host)):
            raise InvalidArgument(
                f"passwords would go to {server.url} without TLS: use ldaps://, leave ldap_starttls on, or set "
                "ldap_plain_remote where no other machine is on that network"
            )
    tls = ClientTls(options.ldap_ca).context if any(each.is_encrypted for each in servers) else None
    is_search = options.ldap_user_dn is None
    rules = Rules(
        user_dn=options.ldap_user_dn,
        bind_dn=options.ldap_bind_dn,
        bind_password=options.ldap_bind_password.encode(),
        user_base=options.ldap_user_base,
        user_filter=parse(options.ldap_user_filter, frozenset((USERNAME,))) if is_search else None,
        group_base=options.ldap_group_base,
        group_filter=parse(options.ldap_group_filter, frozenset((USERNAME, USER_DN))),
        group_attribute=options.ldap_group_attribute,
        nested=options.ldap_nested_groups,
    )
    directory = LdapDirectory(LdapServers(servers, tls, options.ldap_timeout_s, _tell), rules)
    return Ldap(directory, options.ldap_mapping, options.ldap_group_base, options.ldap_cache_s)


def _tell(url: str, trouble: str | None) -> None:
    if trouble is None:
        LOG.info("ldap server answers again", server=url)
    else:
        LOG.error("ldap server does not answer", server=url, reason=trouble, advice="its users cannot log in meanwhile")


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
    from leveret.security.web_tokens import ClaimRules, parse_aliases

    return ClaimRules(
        resource_server_id=options.oauth_resource_server_id,
        scope_prefix=options.oauth_scope_prefix,
        scope_aliases=parse_aliases(options.oauth_scope_aliases or ""),
        additional_scopes_keys=_listed(options.oauth_additional_scopes_key),
        username_claims=_listed(options.oauth_username_claims),
    )


def _listed(given: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (given or "").split(",") if each.strip())
