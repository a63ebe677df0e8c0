"""Receivers: who is told about alerts, how, and about which of them.

Every secret (a URL of a chat, an authorization, a password) is kept, used and never shown again. It is
kept only for the place that it was given for: who changes the place gives it anew.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.patterns import glob_matches
from leveret.observability.alerting.addresses import PORT_MAX, URL_CHARS_MAX, check_plain, endpoint_of
from leveret.observability.alerting.fields import ALL, Row, check_known, choice, globs, named, text, texts, whole
from leveret.observability.alerting.rules import SEVERITIES, AlertRuleSettings

RECEIVERS_MAX = 100
PATTERNS_MAX = 50
ADDRESSES_MAX = 50
SECRET_CHARS_MAX = 2_000
REPEAT_S = 4 * 3600
GROUP_S = 60
WAIT_S_MAX = 30 * 24 * 3600

URL, EMAIL = ("webhook", "slack"), "email"
KINDS = (*URL, EMAIL)
TLS_MODES = ("starttls", "tls", "none")
PORTS = {"starttls": 587, "tls": 465, "none": 25}
SECRETS = ("url", "authorization", "password")
HIDDEN = "(hidden)"
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[?[0-9A-Fa-f:.]+\]?")


@dataclass(frozen=True, slots=True)
class Receiver:
    """A destination of notifications; `rules` are patterns of names."""

    name: str
    kind: str
    rules: tuple[str, ...] = (ALL,)
    severity_min: str = SEVERITIES[0]
    group_s: int = GROUP_S
    """Between two notifications about the same rule, so that what happens together is told together."""
    repeat_s: int = REPEAT_S
    """Time after which the receiver is told again that an alert is still firing."""
    url: str = field(default="", repr=False)
    authorization: str = field(default="", repr=False)
    host: str = ""
    port: int = 0
    tls: str = TLS_MODES[0]
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    to: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, row: Row, plain_remote: bool = False) -> "Receiver":
        """A receiver as a user wrote it; refuses what could not be used, or must not."""
        name = named("a receiver", row)
        what = f"receiver '{name}'"
        kind = choice(what, row, "kind", "", KINDS)
        check_known(f"{what}, a {kind}", row, OF_EMAIL if kind == EMAIL else OF_URL)
        common: dict[str, Any] = {
            "name": name,
            "kind": kind,
            "rules": globs(what, row, "rules", (ALL,), PATTERNS_MAX),
            "severity_min": choice(what, row, "severity_min", SEVERITIES[0], SEVERITIES),
            "group_s": whole(what, row, "group_s", GROUP_S, 0, WAIT_S_MAX),
            "repeat_s": whole(what, row, "repeat_s", REPEAT_S, 60, WAIT_S_MAX),
        }
        own = _mail_fields(what, row, plain_remote) if kind == EMAIL else _url_fields(what, row, plain_remote)
        return cls(**common, **own)

    def to_dict(self) -> dict[str, Any]:
        fields = OF_EMAIL if self.kind == EMAIL else OF_URL
        return {name: _plain(value) for name, value in asdict(self).items() if name in fields}

    def shown(self) -> dict[str, Any]:
        """The definition for people: what is secret is only said to be there."""
        row = self.to_dict()
        hidden = {name: HIDDEN if row[name] else "" for name in SECRETS if name in row}
        return {**row, **hidden, "place": self.place}

    def exported(self) -> dict[str, Any]:
        """The definition for a file: without what is secret."""
        return {name: value for name, value in self.to_dict().items() if name not in SECRETS}

    @property
    def place(self) -> str:
        """Where notifications go, as far as every user may know."""
        return f"{self.host}:{self.port}" if self.kind == EMAIL else endpoint_of(self.url).shown

    def wants(self, rule: AlertRuleSettings) -> bool:
        """Whether it is to be told about a rule."""
        if SEVERITIES.index(rule.severity) < SEVERITIES.index(self.severity_min):
            return False
        return any(glob_matches(pattern, rule.name) for pattern in self.rules)


_COMMON = ("name", "kind", "rules", "severity_min", "group_s", "repeat_s")
OF_URL = (*_COMMON, "url", "authorization")
OF_EMAIL = (*_COMMON, "host", "port", "tls", "user", "password", "sender", "to")


def with_secrets_of(row: Row, known: Receiver | None) -> dict[str, Any]:
    """What a user wrote, with the secrets that were left out or hidden, if they are for the same place."""
    merged = {name: value for name, value in row.items() if value != HIDDEN}
    if known is None or known.kind != row.get("kind"):
        return merged
    kept = known.to_dict()
    if known.kind == EMAIL:
        same = all(merged.get(name, kept[name]) == kept[name] for name in ("host", "port", "tls", "user"))
        return {"password": kept["password"], **merged} if same else merged
    if merged.get("url", kept["url"]) != kept["url"]:
        return merged
    return {"url": kept["url"], "authorization": kept["authorization"], **merged}


def _url_fields(what: str, row: Row, plain_remote: bool) -> dict[str, Any]:
    url = text(what, row, "url", chars_max=URL_CHARS_MAX, needed=True)
    endpoint = endpoint_of(url)
    check_plain(endpoint.host, endpoint.tls, plain_remote)
    authorization = text(what, row, "authorization", chars_max=SECRET_CHARS_MAX)
    if not authorization.isascii():
        raise InvalidArgument(f"authorization of {what} has other characters than a header may have")
    return {"url": url, "authorization": authorization}


def _mail_fields(what: str, row: Row, plain_remote: bool) -> dict[str, Any]:
    """Those of mail."""
    tls = choice(what, row, "tls", TLS_MODES[0], TLS_MODES)
    host = text(what, row, "host", needed=True)
    if not _HOST.fullmatch(host):
        raise InvalidArgument(f"host of {what} is a name or an address")
    check_plain(host, tls != "none", plain_remote)
    to = texts(what, row, "to", (), ADDRESSES_MAX)
    sender = text(what, row, "sender", needed=True)
    for address in (sender, *to):
        if not ADDRESS.fullmatch(address):
            raise InvalidArgument(f"{address!r} of {what} is no address of mail such as ops@example.org")
    return {
        "host": host,
        "port": whole(what, row, "port", PORTS[tls], 1, PORT_MAX),
        "tls": tls,
        "user": text(what, row, "user"),
        "password": text(what, row, "password", chars_max=SECRET_CHARS_MAX),
        "sender": sender,
        "to": to,
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def restored(stored: Mapping[str, Any]) -> Receiver:
    """What the journal has; it was checked when it was kept, and options may have changed since."""
    return Receiver.from_dict(stored, plain_remote=True)
