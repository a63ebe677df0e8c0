"""How the server introduces itself: what it is and what it can do."""

import platform
from typing import Any

from leveret.version import version

PRODUCT = "Leveret"
CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
LOCALES = b"en_US"
PASSWORD_MECHANISMS = ("PLAIN", "AMQPLAIN")
CERTIFICATE_MECHANISM = "EXTERNAL"


def server_properties(cluster_name: str) -> dict[str, Any]:
    """What connection.start says about this server; some clients choose their behaviour by it."""
    return {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": "Copyright the Leveret authors",
        "information": "Licensed under the Apache License 2.0",
        "platform": f"Python {platform.python_version()}",
        "product": PRODUCT,
        "version": version(),
    }


def mechanisms(has_certificate: bool) -> tuple[str, ...]:
    """How a client may say who it is."""
    return (*PASSWORD_MECHANISMS, CERTIFICATE_MECHANISM) if has_certificate else PASSWORD_MECHANISMS
