"""Signature Version 4, as AWS clients sign requests: in the header Authorization, or in the query of a link.

    canonical request = method, path, query, headers, names of the signed ones, SHA-256 of the body
    string to sign    = algorithm, time, scope, SHA-256 of the canonical request
    key               = HMAC over date, region, service and "aws4_request", begun with the secret
    signature         = HMAC of the string to sign

The scope is date/region/service/aws4_request. The key changes once a day, so it is kept, as the state of the two hashes
that an HMAC is made of. Compiled because every request of a client of SQS goes through here.
"""

import re
from calendar import timegm
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest, digest
from time import strptime
from urllib.parse import quote, unquote_to_bytes

from leveret.core.errors import AccessRefused

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_S = 15 * 60
LINK_S_MAX = 7 * 24 * 3600  # that a link may be good for
KEYS_KEPT_MAX = 10_000
UNSIGNED = b"UNSIGNED-PAYLOAD"
PAYLOAD_HASH = b"x-amz-content-sha256"
FIRST_LINE = ALGORITHM.encode()
ALWAYS_SIGNED = frozenset((b"host", b"x-amz-date", b"x-amz-target", b"x-amz-content-sha256"))
START_BYTES_MAX = 1_024  # of a header that is kept after reading: anybody can send one
SIGNATURE_MARK = b"Signature="

cdef enum:
    SIGNATURE_CHARS = 64
    # hashlib lets other threads run while it hashes more than this at once. One of them wants to, mostly: that costs
    # more than hashing some thousand bytes. So these are hashed in pieces, but for bodies that take really long.
    HASHED_AT_ONCE = 2_047
    HASHED_IN_PIECES_MAX = 65_536

_START = re.compile(
    ALGORITHM + r" +Credential=([^/,\s]+)/(\d{8})/([\w-]+)/([\w-]+)/aws4_request, *"
    r"SignedHeaders=([a-z0-9;_.-]+), *",
    re.ASCII,
)
_CREDENTIAL = re.compile(r"([^/]+)/(\d{8})/([\w-]+)/([\w-]+)/aws4_request")
_TIME = re.compile(rb"\d{8}T\d{6}Z")
_SPACES = re.compile(rb" {2,}")
cdef str AGREES_NOT = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and "
    "signing method. Consult the service documentation for details."
)


class SignatureRefused(AccessRefused):
    """A request that is not signed by one of our keys; `reason` is Amazon's name for why."""

    reason: str

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


cdef class SignedRequest:
    """The parts of a request that a signature is about; names of headers are in lower case."""

    cdef str method
    cdef bytes path, query, body
    cdef dict headers

    def __init__(
        self, method: str, path: bytes, query: bytes, headers: dict[bytes, bytes], body: bytes | None
    ) -> None:
        """A request as it came; `body` is None if only the head has come."""
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body

    @property
    def can_be_proved(self) -> bool:
        """Whether all that is signed is known: the body, or the hash that the client says it has."""
        return self.body is not None or PAYLOAD_HASH in self.headers


cdef class Terms:
    """What a client says alike in all its requests of a day."""

    cdef str key_id, date, region, service
    cdef bytes scope                # as it is signed, and so are the names of the signed headers
    cdef bytes names
    cdef tuple signed_headers
    cdef tuple unsigned             # the headers that would have to be signed and are not


cdef class SignatureClaim:
    """What a request says about its signature."""

    cdef Terms terms
    cdef bytes signature, time
    cdef str query
    cdef object expires_s           # after the time; None: it is in the headers, and good as long as clocks may differ


cdef class KeyedHash:
    """HMAC-SHA256 with a key that was put in once."""

    cdef object inner, outer

    def __init__(self, bytes key not None) -> None:
        """Keep both hashes as they are after the key, which has at most the 64 bytes of a block."""
        padded = key.ljust(64, b"\0")
        self.inner = sha256(bytes([byte ^ 0x36 for byte in padded]))
        self.outer = sha256(bytes([byte ^ 0x5C for byte in padded]))

    cdef bytes hexdigest(self, bytes data):
        inner, outer = self.inner.copy(), self.outer.copy()
        inner.update(data)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


cdef class Verifier:
    """Checks signatures for one service."""

    cdef str service
    cdef object find
    cdef dict kept

    def __init__(self, str service not None, find: Callable[[str], AccessKey | None]) -> None:
        self.service = service
        self.find = find
        self.kept = {}

    def verify(self, SignedRequest request not None, now_ms: int) -> "AccessKey":
        """The key that a request was signed with; SignatureRefused when there is none.

        Without its body: the key that it names, if everything is right that can be known by then.
        """
        cdef SignatureClaim claim = claim_of(request)
        key = self.find(claim.terms.key_id)
        if key is None:
            raise SignatureRefused("InvalidClientTokenId", "The security token included in the request is invalid.")
        if claim.terms.service != self.service:
            raise SignatureRefused(
                "SignatureDoesNotMatch", f"Credential should be scoped to correct service: '{self.service}'."
            )
        _check_time(claim, now_ms // 1000)
        if request.body is None and PAYLOAD_HASH not in request.headers:
            return key
        expected = self.key_of(key.secret, claim.terms).hexdigest(_to_sign(claim, request))
        if not compare_digest(expected, claim.signature):
            raise SignatureRefused("SignatureDoesNotMatch", AGREES_NOT)
        return key

    cdef KeyedHash key_of(self, str secret, Terms terms):
        """What a secret signs with on one day, in one region."""
        name = (secret, terms.date, terms.region)
        kept = self.kept.get(name)
        if kept is None:
            if len(self.kept) >= KEYS_KEPT_MAX:
                self.kept.clear()
            kept = self.kept[name] = KeyedHash(signing_key(secret, terms.date, terms.region, terms.service))
        return kept


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """The key of a day."""
    key = b"AWS4" + secret.encode()
    for part in (date, region, service, "aws4_request"):
        key = digest(key, part.encode(), "sha256")
    return key


cdef SignatureClaim claim_of(SignedRequest request):
    """What a request says about its signature."""
    header = request.headers.get(b"authorization")
    if header is not None:
        return _claim_in_header(header.strip(), request)
    if b"X-Amz-Signature" in request.query:
        return _claim_in_query(request)
    raise SignatureRefused("MissingAuthenticationToken", "Request is missing Authentication Token")


cdef SignatureClaim _claim_in_header(bytes header, SignedRequest request):
    start, _, signature = header.rpartition(SIGNATURE_MARK)
    cdef Terms terms = _kept_terms_in(start) if len(start) <= START_BYTES_MAX else _terms_in(start)
    if terms is None or not _is_signature(signature):
        raise _incomplete("The Authorization header is not a Signature Version 4 one")
    _check_signed(terms, request)
    return _claim(terms, signature, request.headers.get(b"x-amz-date", b""), _sorted_query(request.query), None)


cdef bint _is_signature(bytes text) noexcept:
    """Whether a text is the hexadecimal form of a SHA-256."""
    cdef const unsigned char* each = text
    cdef Py_ssize_t i
    if len(text) != SIGNATURE_CHARS:
        return False
    for i in range(SIGNATURE_CHARS):
        if not (c"0" <= each[i] <= c"9" or c"a" <= each[i] <= c"f"):
            return False
    return True


cdef SignatureClaim _claim(Terms terms, bytes signature, bytes time, str query, expires_s):
    cdef SignatureClaim claim = SignatureClaim.__new__(SignatureClaim)
    claim.terms = terms
    claim.signature = signature
    claim.time = time
    claim.query = query
    claim.expires_s = expires_s
    return claim


def _terms_in(bytes start not None):
    """What the header says before the signature; None when it is no such header."""
    match = _START.fullmatch(start.decode("latin-1"))
    return None if match is None else _terms(*match.groups())


_kept_terms_in = lru_cache(maxsize=1_000)(_terms_in)


def _terms(key_id: str, date: str, region: str, service: str, names: str) -> Terms:
    cdef Terms terms = Terms.__new__(Terms)
    signed = tuple([name.encode("latin-1", "replace") for name in names.split(";")])
    terms.key_id, terms.date, terms.region, terms.service = key_id, date, region, service
    terms.scope = f"{date}/{region}/{service}/aws4_request".encode()
    terms.names = b"\n" + b";".join(signed) + b"\n"
    terms.signed_headers = signed
    terms.unsigned = tuple(ALWAYS_SIGNED.difference(signed))
    return terms


cdef SignatureClaim _claim_in_query(SignedRequest request):
    fields = dict(_pairs(request.query))
    credential = _CREDENTIAL.fullmatch(fields.get("X-Amz-Credential", ""))
    expires = fields.get("X-Amz-Expires", "")
    signature = fields.get("X-Amz-Signature", "").encode("latin-1")
    time = fields.get("X-Amz-Date", "").encode("latin-1")
    complete = fields.get("X-Amz-Algorithm") == ALGORITHM and expires.isdecimal() and _is_signature(signature)
    if credential is None or not complete:
        raise _incomplete("A signed link has X-Amz-Algorithm, X-Amz-Credential, X-Amz-Date and X-Amz-Expires")
    key_id, date, region, service = credential.groups()
    terms = _terms(key_id, date, region, service, fields.get("X-Amz-SignedHeaders", ""))
    _check_signed(terms, request)
    expires_s = min(int(expires[:9]), LINK_S_MAX)
    query = _sorted_query(request.query, without="X-Amz-Signature")
    return _claim(terms, signature, time, query, expires_s)


cdef int _check_signed(Terms terms, SignedRequest request) except -1:
    """Refuse a signature without what decides about the request: another party could have added it."""
    for name in terms.unsigned:
        if name in request.headers or name == b"host":
            present = {b"host"} | {name for name in ALWAYS_SIGNED if name in request.headers}
            raise _incomplete(f"These headers have to be signed: {b', '.join(sorted(present)).decode()}")


def _incomplete(text: str) -> SignatureRefused:
    return SignatureRefused("IncompleteSignature", text)


@lru_cache(maxsize=1_000)
def seconds_of(time: bytes) -> int | None:
    """A time like 20260102T030405Z; the requests of one second all have the same."""
    try:
        return timegm(strptime(time.decode(), "%Y%m%dT%H%M%SZ")) if _TIME.fullmatch(time) else None
    except ValueError:
        return None


cdef int _check_time(SignatureClaim claim, now_s) except -1:
    """Refuse what was signed long ago, or for another day."""
    signed_s = seconds_of(claim.time)
    if signed_s is None:
        raise _incomplete("The time of the signature is X-Amz-Date, like 20260102T030405Z")
    if not claim.terms.scope.startswith(claim.time[:8]):
        raise SignatureRefused(
            "SignatureDoesNotMatch", "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date."
        )
    good_s = SKEW_S if claim.expires_s is None else claim.expires_s
    if signed_s + good_s < now_s:
        time = claim.time.decode()
        raise SignatureRefused("RequestExpired", f"Signature expired: {time} is too long ago: check the clock.")
    if signed_s > now_s + SKEW_S:
        time = claim.time.decode()
        raise SignatureRefused("RequestExpired", f"Signature not yet current: {time} is still to come.")


cdef bytes _to_sign(SignatureClaim claim, SignedRequest request):
    """What the signature is of."""
    cdef Terms terms = claim.terms
    cdef dict headers = request.headers
    cdef bytes name
    parts = [f"{request.method}\n{canonical_path(request.path)}\n{claim.query}\n".encode("latin-1")]
    for name in terms.signed_headers:
        parts += (name, b":", _value(headers.get(name, b"")), b"\n")
    parts.append(terms.names)
    declared = headers.get(PAYLOAD_HASH)
    parts.append(declared if request.body is None or declared == UNSIGNED else hash_of(request.body))
    return b"\n".join((FIRST_LINE, claim.time, terms.scope, hash_of(b"".join(parts))))


cdef bytes hash_of(bytes data):
    """The SHA-256 of some bytes, in hexadecimal digits."""
    cdef Py_ssize_t at, size = len(data)
    if size <= HASHED_AT_ONCE or size > HASHED_IN_PIECES_MAX:
        return sha256(data).hexdigest().encode()
    whole = sha256()
    for at in range(0, size, HASHED_AT_ONCE):
        whole.update(data[at : at + HASHED_AT_ONCE])
    return whole.hexdigest().encode()


cdef bytes _value(bytes given):
    """The value of a header as it is signed."""
    value = given.strip()
    return _SPACES.sub(b" ", value) if b"  " in value else value


@lru_cache(maxsize=1_000)
def canonical_path(path: bytes) -> str:
    """The path as it is signed: without dots and double slashes, and encoded once more."""
    kept: list[str] = []
    for part in path.decode("latin-1").split("/"):
        if part == "..":
            if kept:
                kept.pop()
        elif part not in ("", "."):
            kept.append(part)
    slash = "/" if kept and path.endswith(b"/") else ""
    return quote("/" + "/".join(kept) + slash, safe="/~", encoding="latin-1")


def _pairs(bytes query not None):
    """The decoded fields of a query."""
    if not query:
        return []
    split = (part.partition(b"=") for part in query.replace(b"+", b"%20").split(b"&") if part)
    return [
        (unquote_to_bytes(name).decode("latin-1"), unquote_to_bytes(value).decode("latin-1"))
        for name, _, value in split
    ]


cdef str _sorted_query(bytes query, without=None):
    """The query as it is signed."""
    if not query:
        return ""
    encoded = [
        (quote(name, safe="-_.~", encoding="latin-1"), quote(value, safe="-_.~", encoding="latin-1"))
        for name, value in _pairs(query)
        if name != without
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))
