"""The page about the API has every endpoint, with who may ask it."""

from leveret.protocols.management.routes import ROUTES
from leveret.security.authorisation import OPERATIONS
from tests.test_docs import code, table


def words(operation: str | None) -> str:
    """What the page says of an operation."""
    rule = None if operation is None else OPERATIONS[operation]
    if rule is None:
        return "no login"
    in_vhost = rule.tag is None or rule.entry != rule.tag
    if operation == "vhost.monitor":
        return "management in the vhost, monitoring"
    return f"{rule.tag or 'management'}{' in the vhost' if in_vhost else ''}"


def test_every_endpoint_is_on_the_page() -> None:
    told = {
        (method, path, who)
        for methods, path, who, _ in table("management.md", "endpoints")
        for method in methods.split(", ")
    }
    assert told == {(method, code(path), words(name)) for (method, path), (name, _) in ROUTES.items()}
