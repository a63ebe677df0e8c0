"""Stored passwords: ours, those of RabbitMQ, and what is refused."""

import hashlib
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.security import passwords
from leveret.security.passwords import (
    NO_PASSWORD,
    PASSWORD_BYTES_MAX,
    SCRYPT_MEMORY_BYTES_MAX,
    SCRYPT_PARALLELISM_MAX,
    STORED_CHARS_MAX,
    Cost,
    check_new,
    check_stored,
    hash_new,
    hash_password,
    hashed_row,
    imported,
    needs_rehash,
    unmatchable,
    verify,
)

CHEAP = Cost(2, 1, 1)
SHA256 = "rabbit_password_hashing_sha256"
SHA512 = "rabbit_password_hashing_sha512"
SALT = bytes.fromhex("908dc60a")
# From RabbitMQ's page on passwords: this salt, and the password test12.
DOCUMENTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"

secrets_ = st.one_of(
    st.binary(min_size=1, max_size=100), st.text(st.characters(exclude_categories=()), min_size=1, max_size=50)
)


def test_the_documented_hash_of_rabbitmq_is_verified() -> None:
    stored = imported(DOCUMENTED, SHA256)
    assert verify(stored, "test12")
    assert not verify(stored, "test13")


def test_a_sha512_hash_of_rabbitmq_is_verified() -> None:
    stored = imported(b64encode(SALT + hashlib.sha512(SALT + b"test12").digest()).decode(), SHA512)
    assert verify(stored, b"test12")
    assert not verify(stored, b"test1")


@given(password=secrets_, other=secrets_)
def test_only_the_password_itself_is_verified(password: str | bytes, other: str | bytes) -> None:
    stored = hash_password(password, CHEAP)
    assert verify(stored, password)
    same = passwords.encoded(password) == passwords.encoded(other)
    assert verify(stored, other) == same


@given(text=st.text(st.sampled_from("scrypt$0123456789=+/AZaz\0"), max_size=60))
def test_damaged_hashes_are_refused_in_one_way(text: str) -> None:
    if text != NO_PASSWORD:
        with pytest.raises(InvalidArgument, match="set a new password"):
            check_stored(text)


def test_the_default_cost_hashes_and_verifies() -> None:
    stored = hash_password("hare")
    assert stored.startswith("scrypt$16384$8$5$")
    assert verify(stored, "hare")
    assert not needs_rehash(stored)


def test_the_same_password_is_stored_differently_each_time() -> None:
    assert hash_password("hare", CHEAP) != hash_password("hare", CHEAP)


def test_text_and_its_utf8_bytes_are_one_password() -> None:
    assert verify(hash_password("häse", CHEAP), "häse".encode())


@pytest.mark.parametrize(
    "stored", [hash_password("hare", Cost(4, 1, 1)), imported(DOCUMENTED, SHA256)], ids=["cost", "import"]
)
def test_other_costs_and_imports_need_a_rehash(stored: str) -> None:
    assert needs_rehash(stored, CHEAP)


def test_no_password_is_never_right_and_needs_no_rehash() -> None:
    assert imported("", SHA256) == NO_PASSWORD
    assert not verify(NO_PASSWORD, "")
    assert not verify(NO_PASSWORD, "hare")
    assert not needs_rehash(NO_PASSWORD)


def test_an_imported_blank_password_is_not_a_way_in() -> None:
    assert not verify(imported(b64encode(SALT + hashlib.sha256(SALT).digest()).decode(), SHA256), "")


def test_nothing_opens_the_unmatchable() -> None:
    stored = unmatchable(CHEAP)
    check_stored(stored)
    assert not verify(stored, "hare")


@pytest.mark.parametrize("stored", [hash_password("hare", CHEAP), imported(DOCUMENTED, SHA256)], ids=["own", "import"])
def test_hashes_are_compared_in_constant_time(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def spy(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return True

    monkeypatch.setattr(passwords, "compare_digest", spy)
    assert verify(stored, "wrong"), "the answer is that of compare_digest alone"
    assert [len(one) for pair in compared for one in pair] == [32, 32]


def test_an_empty_password_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        hash_password("", CHEAP)


def test_the_longest_password_is_taken_and_a_longer_one_is_refused() -> None:
    longest = "x" * PASSWORD_BYTES_MAX
    assert verify(hash_password(longest, CHEAP), longest)
    with pytest.raises(InvalidArgument, match="shorten it"):
        hash_password(longest + "x", CHEAP)


def test_an_overlong_password_is_not_even_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = hash_password("hare", CHEAP)
    monkeypatch.setattr(hashlib, "scrypt", None)
    assert not verify(stored, "x" * (PASSWORD_BYTES_MAX + 1))


def test_an_overlong_hash_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=f"at most {STORED_CHARS_MAX}"):
        check_stored("x" * (STORED_CHARS_MAX + 1))


@pytest.mark.parametrize("n", [-2, 0, 1, 3])
def test_scrypt_needs_a_power_of_two(n: int) -> None:
    with pytest.raises(InvalidArgument, match="power of two"):
        Cost(n, 1, 1)


def test_a_hash_that_asks_for_too_much_memory_is_refused() -> None:
    n = SCRYPT_MEMORY_BYTES_MAX // 128
    Cost(n, 1, 1)
    with pytest.raises(InvalidArgument, match="choose lower"):
        check_stored(f"scrypt${2 * n}$1$1$AAAA$AAAA")


def test_a_hash_that_asks_for_too_much_time_is_refused() -> None:
    Cost(2, 1, SCRYPT_PARALLELISM_MAX)
    with pytest.raises(InvalidArgument, match="choose lower"):
        Cost(2, 1, SCRYPT_PARALLELISM_MAX + 1)


@pytest.mark.parametrize(
    "stored",
    [
        "scrypt$2$1$1$AAAA$" + b64encode(bytes(32)).decode(),
        "scrypt$2$1$1$" + b64encode(bytes(16)).decode() + "$AAAA",
        f"{SHA256}${b64encode(bytes(35)).decode()}",
        f"{SHA512}${b64encode(bytes(36)).decode()}",
        f"{SHA256}$not base64",
        "rabbit_password_hashing_md5$ytUIm8s3AnKsXQjptplKFytfVxI=",
    ],
)
def test_hashes_of_a_wrong_shape_are_refused(stored: str) -> None:
    with pytest.raises(InvalidArgument, match="set a new password"):
        check_stored(stored)


def test_unknown_algorithms_are_not_imported() -> None:
    with pytest.raises(InvalidArgument, match="one of rabbit_password_hashing_sha256"):
        imported("ytUIm8s3AnKsXQjptplKFytfVxI=", "rabbit_password_hashing_md5")


@pytest.mark.parametrize("password", ["12345678", "7 chars\N{RABBIT FACE}", b"12345678", "x" * 100])
def test_a_password_that_is_long_enough(password: str | bytes) -> None:
    check_new(password)


@pytest.mark.parametrize("password", ["1234567", "\N{RABBIT FACE}" * 7, b"x"])
def test_a_password_that_is_too_short(password: str | bytes) -> None:
    with pytest.raises(InvalidArgument, match="the minimum is 8: choose a longer one"):
        check_new(password)
    check_new(password, 1)


def test_an_empty_password_is_never_new() -> None:
    with pytest.raises(InvalidArgument, match="is empty"):
        hash_new("", 1)


@pytest.mark.parametrize("password", ["short", "x" * 2_000, 5, None])
def test_a_refused_password_of_a_file_goes_no_further(password: object) -> None:
    assert hashed_row({"name": "ada", "password": password}) == {"name": "ada", "password": None}


def test_a_short_password_of_a_file_may_be_allowed() -> None:
    row = hashed_row({"name": "ada", "password": "short"}, chars_min=5)
    assert verify(row["password_hash"], "short")
