"""The page about the API has every endpoint, with who may ask it."""

from leveret.http.management.routes import ROUTES
from leveret.http.management.rules import Rule
from tests.test_docs import code, table

WORDS = {
    Rule.OPEN: "no login",
    Rule.MANAGEMENT: "management",
    Rule.VHOST: "management in the vhost",
    Rule.MONITORED_VHOST: "management in the vhost, monitoring",
    Rule.MONITORING: "monitoring",
    Rule.POLICY: "policymaker in the vhost",
    Rule.ADMINISTRATOR: "administrator",
}


def test_every_endpoint_is_on_the_page() -> None:
    told = {
        (method, path, who)
        for methods, path, who, _ in table("management.md", "endpoints")
        for method in methods.split(", ")
    }
    assert told == {(method, code(path), WORDS[rule]) for (method, path), (rule, _) in ROUTES.items()}
