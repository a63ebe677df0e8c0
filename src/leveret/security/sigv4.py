"""Signature Version 4, as AWS clients sign requests: in the header Authorization, or in the query of a link.

    canonical request = method, path, query, headers, names of the signed ones, SHA-256 of the body
    string to sign    = algorithm, time, scope, SHA-256 of the canonical request
    key               = HMAC over date, region, service and "aws4_request", begun with the secret
    signature         = HMAC of the string to sign

The scope is date/region/service/aws4_request. The key changes once a day, so it is kept.
"""

import hmac
import re
from calendar import timegm
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from time import strptime
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from leveret.core.errors import AccessRefused
from leveret.security.access_keys import AccessKey

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_S = 15 * 60
LINK_S_MAX = 7 * 24 * 3600  # that a link may be good for
KEYS_KEPT_MAX = 10_000
UNSIGNED = "UNSIGNED-PAYLOAD"
ALWAYS_SIGNED = frozenset((b"host", b"x-amz-date", b"x-amz-target", b"x-amz-content-sha256"))
START_CHARS_MAX = 1_024  # of a header that is kept after reading: anybody can send one

_START = re.compile(
    ALGORITHM + r" +Credential=([^/,\s]+)/(\d{8})/([\w-]+)/([\w-]+)/aws4_request, *"
    r"SignedHeaders=([a-z0-9;_.-]+), *"
)
_SIGNATURE = re.compile(r"[0-9a-f]{64}")
_CREDENTIAL = re.compile(r"([^/]+)/(\d{8})/([\w-]+)/([\w-]+)/aws4_request")
_TIME = re.compile(r"\d{8}T\d{6}Z")
_SPACES = re.compile(rb" {2,}")


class SignatureRefused(AccessRefused):
    """A request that is not signed by one of our keys; `reason` is Amazon's name for why."""

    def __init__(self, reason: str, text: str) -> None:
        """Refuse for a reason."""
        super().__init__(text)
        self.reason = reason


class SignedRequest(NamedTuple):
    """The parts of a request that a signature is about; names of headers are in lower case."""

    method: str
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    body: bytes


class Terms(NamedTuple):
    """What a client says alike in all its requests of a day."""

    key_id: str
    date: str
    region: str
    service: str
    signed_headers: tuple[bytes, ...]
    unsigned: tuple[bytes, ...]
    """The headers that would have to be signed and are not."""


class Claim(NamedTuple):
    """What a request says about its signature."""

    terms: Terms
    signature: str
    time: str
    query: str
    expires_s: int | None
    """After the time; None: the signature is in the headers, and good as long as clocks may differ."""


class Verifier:
    """Checks signatures for one service."""

    def __init__(self, service: str, find: Callable[[str], AccessKey | None]) -> None:
        """Look keys up by their ids."""
        self._service = service
        self._find = find
        self._kept: dict[tuple[str, str, str], bytes] = {}

    def verify(self, request: SignedRequest, now_ms: int) -> AccessKey:
        """The key that a request was signed with; SignatureRefused when there is none."""
        claim = claim_of(request)
        key = self._find(claim.terms.key_id)
        if key is None:
            raise SignatureRefused("InvalidClientTokenId", "The security token included in the request is invalid.")
        if claim.terms.service != self._service:
            raise SignatureRefused(
                "SignatureDoesNotMatch", f"Credential should be scoped to correct service: '{self._service}'."
            )
        _check_time(claim, now_ms // 1000)
        expected = hmac.digest(self._key(key, claim.terms), _to_sign(claim, request), "sha256").hex()
        if not hmac.compare_digest(expected, claim.signature):
            raise SignatureRefused(
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
                "Access Key and signing method. Consult the service documentation for details.",
            )
        return key

    def _key(self, key: AccessKey, terms: Terms) -> bytes:
        """What a secret signs with on one day, in one region."""
        kept = self._kept.get((key.secret, terms.date, terms.region))
        if kept is None:
            if len(self._kept) >= KEYS_KEPT_MAX:
                self._kept.clear()
            kept = signing_key(key.secret, terms.date, terms.region, terms.service)
            self._kept[key.secret, terms.date, terms.region] = kept
        return kept


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """The key of a day."""
    key = b"AWS4" + secret.encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def claim_of(request: SignedRequest) -> Claim:
    """What a request says about its signature."""
    header = request.headers.get(b"authorization")
    if header is not None:
        return _claim_in_header(header.decode("latin-1").strip(), request)
    if b"X-Amz-Signature" in request.query:
        return _claim_in_query(request)
    raise SignatureRefused("MissingAuthenticationToken", "Request is missing Authentication Token")


def _claim_in_header(header: str, request: SignedRequest) -> Claim:
    start, _, signature = header.rpartition("Signature=")
    terms = _kept_terms_in(start) if len(start) <= START_CHARS_MAX else _terms_in(start)
    if terms is None or not _SIGNATURE.fullmatch(signature):
        raise _incomplete("The Authorization header is not a Signature Version 4 one")
    time = request.headers.get(b"x-amz-date", b"").decode("latin-1")
    _check_signed(terms, request)
    return Claim(terms, signature, time, _sorted_query(request.query), None)


def _terms_in(start: str) -> Terms | None:
    """What the header says before the signature; None when it is no such header."""
    match = _START.fullmatch(start)
    return None if match is None else _terms(*match.groups())


_kept_terms_in = lru_cache(maxsize=1_000)(_terms_in)


def _terms(key_id: str, date: str, region: str, service: str, names: str) -> Terms:
    signed = tuple(name.encode("latin-1", "replace") for name in names.split(";"))
    return Terms(key_id, date, region, service, signed, tuple(ALWAYS_SIGNED.difference(signed)))


def _claim_in_query(request: SignedRequest) -> Claim:
    fields = dict(_pairs(request.query))
    credential = _CREDENTIAL.fullmatch(fields.get("X-Amz-Credential", ""))
    expires = fields.get("X-Amz-Expires", "")
    if credential is None or fields.get("X-Amz-Algorithm") != ALGORITHM or not expires.isdecimal():
        raise _incomplete("A signed link has X-Amz-Algorithm, X-Amz-Credential, X-Amz-Date and X-Amz-Expires")
    key_id, date, region, service = credential.groups()
    terms = _terms(key_id, date, region, service, fields.get("X-Amz-SignedHeaders", ""))
    _check_signed(terms, request)
    expires_s = min(int(expires[:9]), LINK_S_MAX)
    query = _sorted_query(request.query, without="X-Amz-Signature")
    signature, time = fields["X-Amz-Signature"], fields.get("X-Amz-Date", "")
    return Claim(terms, signature, time, query, expires_s)


def _check_signed(terms: Terms, request: SignedRequest) -> None:
    """Refuse a signature without what decides about the request: somebody else could have added it."""
    for name in terms.unsigned:
        if name in request.headers or name == b"host":
            present = {b"host"} | {name for name in ALWAYS_SIGNED if name in request.headers}
            raise _incomplete(f"These headers have to be signed: {b', '.join(sorted(present)).decode()}")


def _incomplete(text: str) -> SignatureRefused:
    return SignatureRefused("IncompleteSignature", text)


@lru_cache(maxsize=1_000)
def seconds_of(time: str) -> int | None:
    """A time like 20260102T030405Z; the requests of one second all have the same."""
    try:
        return timegm(strptime(time, "%Y%m%dT%H%M%SZ")) if _TIME.fullmatch(time) else None
    except ValueError:
        return None


def _check_time(claim: Claim, now_s: int) -> None:
    """Refuse what was signed long ago, or for another day."""
    signed_s = seconds_of(claim.time)
    if signed_s is None:
        raise _incomplete("The time of the signature is X-Amz-Date, like 20260102T030405Z")
    if claim.time[:8] != claim.terms.date:
        raise SignatureRefused(
            "SignatureDoesNotMatch", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date."
        )
    good_s = SKEW_S if claim.expires_s is None else claim.expires_s
    if signed_s + good_s < now_s:
        raise SignatureRefused("RequestExpired", f"Signature expired: {claim.time} is too long ago: check the clock.")
    if signed_s > now_s + SKEW_S:
        raise SignatureRefused("RequestExpired", f"Signature not yet current: {claim.time} is still to come.")


def _to_sign(claim: Claim, request: SignedRequest) -> bytes:
    """What the signature is of."""
    headers, terms = request.headers, claim.terms
    signed = terms.signed_headers
    lines = b"".join([b"%b:%b\n" % (name, _value(headers.get(name, b""))) for name in signed])
    payload = UNSIGNED
    if headers.get(b"x-amz-content-sha256") != UNSIGNED.encode():
        payload = sha256(request.body).hexdigest()
    start = f"{request.method}\n{canonical_path(request.path)}\n{claim.query}\n".encode("latin-1")
    hashed = sha256(b"%b%b\n%b\n%b" % (start, lines, b";".join(signed), payload.encode())).hexdigest()
    scope = f"{terms.date}/{terms.region}/{terms.service}/aws4_request"
    return f"{ALGORITHM}\n{claim.time}\n{scope}\n{hashed}".encode()


def _value(given: bytes) -> bytes:
    """The value of a header as it is signed."""
    value = given.strip()
    return _SPACES.sub(b" ", value) if b"  " in value else value


@lru_cache(maxsize=1_000)
def canonical_path(path: bytes) -> str:
    """The path as it is signed: without dots and double slashes, and encoded once more."""
    kept: list[str] = []
    for part in path.decode("latin-1").split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    slash = "/" if kept and path.endswith(b"/") else ""
    return quote("/" + "/".join(kept) + slash, safe="/~", encoding="latin-1")


def _pairs(query: bytes) -> list[tuple[str, str]]:
    """The decoded fields of a query."""
    if not query:
        return []
    split = (part.partition(b"=") for part in query.replace(b"+", b"%20").split(b"&") if part)
    return [
        (unquote_to_bytes(name).decode("latin-1"), unquote_to_bytes(value).decode("latin-1"))
        for name, _, value in split
    ]


def _sorted_query(query: bytes, without: str | None = None) -> str:
    """The query as it is signed."""
    if not query:
        return ""
    encoded = [
        (quote(name, safe="-_.~", encoding="latin-1"), quote(value, safe="-_.~", encoding="latin-1"))
        for name, value in _pairs(query)
        if name != without
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))
