"""The page about the API has every endpoint, with who may ask it."""

from leveret.operations.registry import OPERATIONS
from leveret.protocols.management.routes import ROUTES
from tests.test_docs import code, table


def words(path: str, operation: str) -> str:
    """What the page says of the operation of an endpoint."""
    rule = OPERATIONS[operation].rule
    if not rule.login:
        return "no login"
    names_one = "{vhost}" in path or rule.tag == "policymaker"  # whose bodies may name it
    in_vhost = names_one and (rule.tag is None or rule.entry != rule.tag)
    if in_vhost and rule.entry == "monitoring":
        return "management in the vhost, monitoring"
    return f"{rule.tag or 'management'}{' in the vhost' if in_vhost else ''}"


def test_every_endpoint_is_on_the_page() -> None:
    told = {
        (method, path, who)
        for methods, path, who, _ in table("management.md", "endpoints")
        for method in methods.split(", ")
    }
    assert told == {(method, code(path), words(path, name)) for (method, path), (name, *_) in ROUTES.items()}
