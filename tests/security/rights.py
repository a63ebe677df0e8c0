"""The tables of rights in docs/security.md, made from the table in the source; run as a module it writes them there."""

import re

from leveret.operations.perform import handled
from leveret.operations.registry import OPERATIONS
from leveret.protocols.management.routes import ROUTES
from leveret.protocols.rest.api import OPERATIONS as REST
from leveret.protocols.sqs.authorization import ACTIONS
from leveret.security.authorisation import requirement
from leveret.wire.codec import LAYOUT_OF
from tests.sources import ROOT

PAGE = ROOT / "docs" / "security.md"
PASSIVE = ("exchange.declare-passive", "queue.declare-passive")
METHODS = frozenset((*PASSIVE, *(layout.spec.name for layout in LAYOUT_OF.values())))
"""Methods of AMQP."""
HEADS = {
    "rights": ("operation", "needs, beside the entry to the virtual host", "SQS", "REST", "management API, `/api`"),
    "tags": ("operation", "tag", "without entry to the virtual host", "endpoints"),
}


def code(value: str) -> str:
    """A name as pages write it."""
    return f"`{value}`"


def rest_of(operation: str) -> list[str]:
    """The requests of REST that are an operation."""
    return [f"{each.method} {each.path}" for each in REST if each.name == operation]


def management_of(operation: str) -> list[str]:
    """The requests of the management API that are an operation."""
    return [f"{method} {path}" for (method, path), (name, *_) in ROUTES.items() if name == operation]


def rights() -> list[list[str]]:
    """A row for each operation that rights on queues and exchanges allow."""
    return [
        [
            code(name),
            requirement(operation.rule) or "no more",
            ", ".join(action for action, named in ACTIONS.items() if named == name),
            *(", ".join(map(code, requests(name))) for requests in (rest_of, management_of)),
        ]
        for name, operation in OPERATIONS.items()
        if operation.rule.tag is None and operation.rule.login
    ]


def tags() -> list[list[str]]:
    """A row for each operation that tags allow."""
    rows = []
    for name, operation in OPERATIONS.items():
        rule = operation.rule
        if rule.tag is None and rule.login:
            continue
        found = [*rest_of(name), *(request.replace(" ", " /api", 1) for request in management_of(name))]
        found += [f"POST /operator/{name}"] if name in handled() else []
        shown = ", ".join(map(code, found))
        rows.append([code(name), rule.tag or "no login", rule.entry or "", shown])
    return rows


def made() -> dict[str, list[list[str]]]:
    """Both tables."""
    return {"rights": rights(), "tags": tags()}


def written(name: str, rows: list[list[str]]) -> str:
    """A table as pages have it."""
    head = HEADS[name]
    lines = [head, ["---"] * len(head), *rows]
    text = "".join(f"| {' | '.join(row)} |\n" for row in lines).replace("| --- | ", "|---|").replace("--- | ", "---|")
    return f"<!-- table: {name} -->\n{text.replace('--- |', '---|')}"


def main() -> None:
    """Write the tables into the page."""
    text = PAGE.read_text()
    for name, rows in made().items():
        pattern = rf"<!-- table: {name} -->\n(?:\|.*\n)*"
        text = re.sub(pattern, lambda _, name=name, rows=rows: written(name, rows), text)  # type: ignore[misc]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
