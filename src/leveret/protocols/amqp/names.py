"""Names that clients give, and those that the server makes for them."""

import secrets

from leveret.core.errors import AccessRefused

REPLY_TO = "amq.rabbitmq.reply-to"
_RANDOM_BYTES = 16  # 22 characters
_LINE_ENDS = str.maketrans("", "", "\r\n")


def stripped(name: str) -> str:
    """A name without line ends, which some clients send by mistake."""
    return name.translate(_LINE_ENDS)


def queue_name() -> str:
    """The name of a queue that was declared without one."""
    return f"amq.gen-{secrets.token_urlsafe(_RANDOM_BYTES)}"


def consumer_tag() -> str:
    """The tag of a consumer that came without one."""
    return f"amq.ctag-{secrets.token_urlsafe(_RANDOM_BYTES)}"


def reply_name(node: str) -> str:
    """Where replies to a channel go, on a node or on the only one (""); a client that does not know it cannot send
    any."""
    place = f"{REPLY_TO}.{node}" if node else REPLY_TO
    return f"{place}.{secrets.token_urlsafe(_RANDOM_BYTES)}"


def node_of_reply(name: str) -> str:
    """The node that a reply goes to; "": this one, or none."""
    return name.rpartition(".")[0].removeprefix(REPLY_TO).removeprefix(".")


def refuse_default(exchange: str) -> None:
    """Refuse to change the exchange without a name."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
