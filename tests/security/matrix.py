"""Cases of the matrix of rights: for a request, the rights that are just enough, and those that must not be.

What a request asks for is written down by its test, as operations with names; what these need is read from the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leveret.operations.registry import rule_of
from leveret.security.authorisation import ACCESSES, HOLDERS, OPTIONAL, Role, Tag
from leveret.security.permissions import Access

NAMES = ("orders", "dlq", "clicks", "events", "other", "alternate", "new", "aliveness-test", "amq.default")
"""What queues, streams and exchanges of these tests are called."""
NOTHING = "^$"
TAGS: tuple[str, ...] = ("", "management", "monitoring", "policymaker", "administrator", "impersonator")


class Ask:
    """An operation with names, as a request asks for it."""

    def __init__(self, operation: str, keys: bool = False, /, **names: str) -> None:
        """`keys`: the request has a routing key for a topic exchange."""
        self.operation = operation
        self.keys = keys
        self.names: dict[Role, str] = {**names}  # type: ignore[dict-item]

    @property
    def needs(self) -> set[tuple[Access, str]]:
        """The accesses that it needs, all of them."""
        rule = rule_of(self.operation)
        if rule.any_right:
            return set()
        return {
            (access, self.names[role])
            for access, role, only_with in rule.rights
            if not (only_with and only_with.isdisjoint(self.names))
            and not (role in OPTIONAL and role not in self.names)
        }

    @property
    def one_of(self) -> str | None:
        """The name on which any access is enough."""
        rule = rule_of(self.operation)
        return self.names[rule.rights[0].role] if rule.any_right else None


@dataclass(frozen=True)
class Case:
    """Permissions of a user, and whether they are enough."""

    label: str
    allowed: bool
    patterns: Mapping[str, str] | None = field(default_factory=dict)
    """By access; None: the user may not enter the virtual host."""
    topic: str | None = None
    """The pattern of routing keys; None: there is no topic permission."""

    @property
    def triple(self) -> tuple[str, str, str]:
        """Configure, write and read."""
        given = self.patterns or {}
        return (given.get("configure", NOTHING), given.get("write", NOTHING), given.get("read", NOTHING))


def only(*names: str) -> str:
    """A pattern for these names."""
    return f"^({'|'.join(names)})$" if names else NOTHING


def all_but(name: str) -> str:
    """A pattern for every other name."""
    return only(*(each for each in NAMES if each != name))


def cases(asks: Sequence[Ask]) -> Iterator[Case]:
    """Every case of a request."""
    needs = set().union(*(ask.needs for ask in asks))
    least: dict[str, str] = {
        access: only(*sorted(name for each, name in needs if each == access)) for access in ACCESSES
    }
    everything: dict[str, str] = dict.fromkeys(map(str, ACCESSES), ".*")
    seen = next((ask.one_of for ask in asks if ask.one_of is not None), None)
    if seen is None:
        yield Case("no more than needed", True, least)
        yield Case("nothing", not needs, {})
    for access, name in sorted(needs):
        yield Case(f"all but {access} on {name}", False, {**everything, access: all_but(name)})
    for access in ACCESSES:
        is_enough = {each for each, _ in needs} <= {access}
        yield Case(f"{access} alone", is_enough, {access: ".*"})
        if seen is not None:
            yield Case(f"{access} on it", True, {access: only(seen)})
            yield Case(f"{access} on others", False, {access: all_but(seen)})
    yield Case("everything, elsewhere", False, None)
    if any(ask.keys for ask in asks):
        yield Case("its keys", True, everything, "^a\\.")
        yield Case("other keys", False, everything, "^b\\.")


def numbered(requests: Mapping[Any, tuple[Any, Sequence[Ask]]]) -> int:
    """How many cases there are of some requests, each with what it asks for."""
    return sum(len(list(cases(asks))) for _, asks in requests.values())


def tag_allows(operation: str, tag: str, enters: bool, least: Tag | None = None) -> bool:
    """Whether a user with one tag may, in a virtual host that it may enter or not; `least` is asked of all users."""
    rule = rule_of(operation)
    if any(needed is not None and tag not in HOLDERS[needed] for needed in (least, rule.tag)):
        return False
    entry = rule.entry or ("administrator" if least else None)
    return enters or (entry is not None and tag in HOLDERS[entry])
