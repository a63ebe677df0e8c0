"""The chain of authentication backends that the options of a server ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.security.access import Access
from leveret.security.authentication import BACKENDS, Authentication, Backend, Internal
from leveret.security.failures import Failures

if TYPE_CHECKING:
    from leveret.security.web_tokens import WebTokens


def backend_names(options: ServerOptions) -> tuple[str, ...]:
    """The backends in their order. By default web tokens first: what has not their form is refused at no cost."""
    if options.auth_backends is None:
        return ("oauth2", "internal") if options.jwt_issuer else ("internal",)
    names = tuple(each.strip() for each in options.auth_backends.split(","))
    if len(set(names)) != len(names) or not set(names) <= set(BACKENDS):
        raise InvalidArgument(
            f"auth_backends is a list by commas of {', '.join(BACKENDS)}, each once, not {options.auth_backends!r}"
        )
    if "oauth2" in names and not options.jwt_issuer:
        raise InvalidArgument("auth_backends has oauth2, but no issuer is given: give jwt_issuer and jwt_keys")
    return names


def authentication_of(options: ServerOptions, access: Access, token_failures: Failures | None = None) -> Authentication:
    """The chain of a server."""
    backends = [_backend(name, options, access) for name in backend_names(options)]
    return Authentication(access, backends, token_failures)


def _backend(name: str, options: ServerOptions, access: Access) -> Backend:
    if name == "internal":
        return Internal(access)
    tokens = web_tokens_of(options)
    assert tokens is not None, "an issuer is given: see backend_names"
    from leveret.security.web_tokens import OAuth2

    return OAuth2(tokens)


def web_tokens_of(options: ServerOptions) -> WebTokens | None:
    """Whose tokens are taken, if anybody's."""
    if options.jwt_issuer is None or options.jwt_keys is None:
        return None
    try:
        from leveret.security.web_tokens import Issuer, WebTokens
    except ImportError:
        raise InvalidArgument("web tokens need a library: pip install 'leveret[jwt]'") from None
    return WebTokens(Issuer(issuer=options.jwt_issuer, audience=options.jwt_audience, keys=options.jwt_keys))
