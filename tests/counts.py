"""How many cases the large tables of the tests have: `make counts` prints them."""

from collections.abc import Mapping

from leveret.protocols.rest.api import OPERATIONS
from leveret.protocols.sqs.service import QUEUE_ACTIONS
from tests.protocols.amqp import test_denials
from tests.protocols.management.recorded import RECORDED
from tests.protocols.rest import test_security
from tests.protocols.sqs import test_authorization
from tests.protocols.sqs.golden import GOLDEN
from tests.security import test_matrix_amqp, test_matrix_management, test_matrix_rest, test_matrix_sqs
from tests.security.matrix import TAGS, numbered


def golden() -> Mapping[str, int]:
    """Refusals whose status, code and text are those of Amazon."""
    return {"SQS, AWS JSON": len(GOLDEN), "SQS, Query": len(GOLDEN)}


def security() -> Mapping[str, int]:
    """Who asks for what: a verb and a kind of access are one case."""
    needing = len(test_security.NEEDING)
    return {
        "AMQP verbs, each permission taken away, and no more than needed": len(test_denials.CASES)
        + len(test_denials.VERBS),
        "SQS actions, each permission alone, and none": len(QUEUE_ACTIONS) * (len(test_authorization.NEEDS) + 1),
        "REST operations, without a login": len(OPERATIONS),
        "REST operations, without the permission, without the scope, with both": 3 * needing,
        "management endpoints, each kind of user": sum(len(told) for told in RECORDED["statuses"].values()),
    }


def rights() -> Mapping[str, int]:
    """Requests of every operation by every protocol: with rights that are just enough, and with those that are not."""
    entered = sum(len(test_matrix_amqp.entered(asks)) for _, asks in test_matrix_amqp.REQUESTS.values())
    return {
        "AMQP, single server and cluster": 2 * entered,
        "SQS": numbered(test_matrix_sqs.REQUESTS),
        "REST": numbered(test_matrix_rest.REQUESTS) + len(test_matrix_rest.TAGGED) * len(TAGS[1:]),
        "management API, rights": numbered(test_matrix_management.REQUESTS) + len(test_matrix_management.REQUESTS),
        "management API, tags": 2 * len(TAGS) * len(test_matrix_management.TAGGED),
        "console and operator verbs, tags": 2 * len(TAGS),
    }


def main() -> None:
    """Print the tables with their sums."""
    tables = {"golden rows": golden(), "security matrix": security(), "matrix of rights": rights()}
    for title, rows in tables.items():
        print(f"{sum(rows.values()):6,} {title}")
        for name, count in rows.items():
            print(f"{count:6,}   {name}")


if __name__ == "__main__":
    main()
