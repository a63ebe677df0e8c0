"""Claims of a verified token to an Identity: the one function that all protocols use.

Scopes come from the claim `scope` and from those that `oauth_additional_scopes_key` names, as they are or by an alias.
What begins with the prefix (`leveret.`) is in RabbitMQ's syntax, `read:vhost/name[/key]` or `tag:administrator`; what
does not, in Leveret's own. Others, such as openid, mean something to other servers and are ignored.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.security.identity import BadToken, Identity, tags_within
from leveret.security.scopes import SCOPE_CHARS_MAX, SCOPES_BYTES_MAX, is_plain, limited, qualified, words
from leveret.security.users import TAGS, tag_set

SCOPE_CLAIM = "scope"
TAGS_CLAIM = "tags"
TAG = "tag:"
USERNAME_CLAIMS = ("sub", "client_id")  # asked after those of the option, as RabbitMQ does
WORDS_MAX = 10_000  # of a token, before those for other servers are left out
PATH_DEPTH_MAX = 10
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Which claims are read, and how."""

    resource_server_id: str = "leveret"
    """The audience that a token must name, and the prefix of its scopes."""
    scope_prefix: str | None = None
    """Another prefix; default: the resource server with a dot."""
    scope_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    additional_scopes_keys: tuple[str, ...] = ()
    """Claims that have scopes as well; a dot leads into an object, as in realm_access.roles."""
    username_claims: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """What scopes for this server begin with."""
        return f"{self.resource_server_id}." if self.scope_prefix is None else self.scope_prefix

    def identity(self, claims: Mapping[str, Any], expires_ms: int) -> Identity:
        """The identity that verified claims describe; BadToken if they describe none."""
        try:
            user = self.user(claims)
            scopes, tags = self._granted(claims)
            tags |= tags_within(tag_set(claims.get(TAGS_CLAIM, ())), scopes)
        except InvalidArgument as error:
            raise BadToken(f"the token cannot be used: {error}") from None
        return Identity(user, tags & TAGS, scopes, local=False, expires_ms=expires_ms)

    def user(self, claims: Mapping[str, Any]) -> str:
        """The name of the user."""
        for name in (*self.username_claims, *USERNAME_CLAIMS):
            user = claims.get(name)
            if isinstance(user, str) and user:
                check_name("user", user)
                return user
        raise InvalidArgument(f"it has none of the claims {', '.join((*self.username_claims, *USERNAME_CLAIMS))}")

    def _granted(self, claims: Mapping[str, Any]) -> tuple[tuple[str, ...], frozenset[str]]:
        """The scopes that mean something here, each once, and the tags."""
        scopes: dict[str, None] = {}
        tags = set()
        for word in self._words(claims):
            if len(word) > SCOPE_CHARS_MAX:
                continue
            if word.startswith(self.prefix):
                meaning = word.removeprefix(self.prefix)
                if meaning.startswith(TAG):
                    tags.add(meaning.removeprefix(TAG))
                elif (scope := qualified(_expanded(meaning, claims))) is not None:
                    scopes[scope] = None
            elif is_plain(word):
                scopes[word] = None
        if sum(len(each.encode()) for each in scopes) > SCOPES_BYTES_MAX:
            raise InvalidArgument(f"its scopes for this server have over {SCOPES_BYTES_MAX} bytes: use patterns")
        return limited(tuple(scopes)), frozenset(tags)

    def _words(self, claims: Mapping[str, Any]) -> Iterator[str]:
        """All scopes of a token, with those that stand behind an alias."""
        found = list(self._values(claims.get(SCOPE_CLAIM, ())))
        for path in self.additional_scopes_keys:
            for value in _at(claims, path.split(".")[:PATH_DEPTH_MAX]):
                found += self._values(value)
        if len(found) > WORDS_MAX:
            raise InvalidArgument(f"a token has at most {WORDS_MAX} scopes and roles, not {len(found)}")
        for word in found:
            yield word
            yield from self.scope_aliases.get(word, ())

    def _values(self, value: object) -> tuple[str, ...]:
        """The words of a claim; an object has them under the name of this server, without the prefix."""
        if isinstance(value, Mapping):
            return tuple(f"{self.prefix}{word}" for word in words(value.get(self.resource_server_id, ())) or ())
        return words(value) or ()


def _at(claims: object, path: list[str]) -> list[object]:
    """What is at a path; lists on the way are gone through."""
    found = [claims]
    for name in path:
        flat = [each for value in found for each in (value if isinstance(value, list) else [value])]
        found = [each[name] for each in flat if isinstance(each, Mapping) and name in each]
    return found


def _expanded(scope: str, claims: Mapping[str, Any]) -> str:
    """The scope with the value of a claim in place of {claim}; encoded, so that a value is no pattern.

    {vhost} is left: it is known when the scope is asked for.
    """

    def value(match: re.Match[str]) -> str:
        claim = claims.get(match[1])
        return quote(claim, safe="") if isinstance(claim, str) and match[1] != "vhost" else match[0]

    return _VARIABLE.sub(value, scope)


def parse_aliases(given: str) -> dict[str, tuple[str, ...]]:
    """Aliases as the option has them: role=scope scope;other=scope."""
    aliases = {}
    for each in filter(None, (part.strip() for part in given.split(";"))):
        name, equals, scopes = each.partition("=")
        if not (name.strip() and equals and scopes.split()):
            raise InvalidArgument(f"oauth_scope_aliases is like role=scope scope;other=scope, not {each!r}")
        aliases[name.strip()] = tuple(scopes.split())
    return aliases
