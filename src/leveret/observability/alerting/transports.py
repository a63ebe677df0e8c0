"""Sending one notification, once: by HTTP or by mail. Waits for the network, so in a thread of its own.

`DeliveryFailed.again` says whether it is worth another try: a receiver that refuses what it was sent will refuse it
again.
"""

import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPException

from leveret.http_client import ThreadedClient
from leveret.observability.alerting import payloads
from leveret.observability.alerting.addresses import AddressRefused, WebhookEndpoint, connect, endpoint_of
from leveret.observability.alerting.notifications import Notification

STEP_S = 10.0  # for one step of a dialogue: to connect, to get an answer
PASSING = frozenset((408, 425, 429))  # statuses of clients that mean "later"
SENDER = "Leveret"


class DeliveryFailed(Exception):
    """A notification was not taken; the text has no secret in it."""

    def __init__(self, reason: str, again: bool, status: int | None = None) -> None:
        """Say why, and whether to try again; `status` is that of HTTP, if there was an answer."""
        super().__init__(reason)
        self.again = again
        self.status = status


@dataclass(frozen=True, slots=True)
class Transports:
    """How receivers may be reached."""

    node: str
    plain_remote: bool = False
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context

    def send(self, notification: Notification) -> None:
        """Send a notification; raises Failed."""
        try:
            with reachable():
                SENDS[notification.receiver.kind](self, notification)
        except smtplib.SMTPResponseException as error:
            raise DeliveryFailed(f"the mail server answered {error.smtp_code}", again=error.smtp_code < 500) from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise DeliveryFailed(f"the mail server refused the addresses: {codes}", again=codes[0] < 500) from None
        except smtplib.SMTPNotSupportedError:
            raise DeliveryFailed(
                "the mail server does not do STARTTLS or log in: choose another tls", again=False
            ) from None
        except smtplib.SMTPException as error:
            raise DeliveryFailed(f"it cannot be reached: {type(error).__name__}", again=True) from None


@contextmanager
def reachable() -> Iterator[None]:
    """What keeps from sending becomes Failed; not with the text of what is not ours, which might tell what we sent."""
    try:
        yield
    except smtplib.SMTPException:
        raise
    except AddressRefused as error:
        raise DeliveryFailed(str(error), again=False) from None
    except ssl.SSLCertVerificationError as error:
        raise DeliveryFailed(f"its certificate is not to be trusted: {error.verify_message}", again=True) from None
    except UnicodeError:
        raise DeliveryFailed("its host is no name", again=False) from None
    except (OSError, HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise DeliveryFailed(f"it cannot be reached: {reason}", again=True) from None


def post(transports: Transports, notification: Notification, body: bytes) -> None:
    """Send a body of JSON; every 2xx is a yes."""
    endpoint, authorization = endpoint_of(notification.receiver.url), notification.receiver.authorization
    headers = {"Content-Type": "application/json"}
    if authorization:
        headers["Authorization"] = authorization
    post_body(transports, endpoint, body, headers)


def post_body(transports: Transports, endpoint: WebhookEndpoint, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body once; raises Failed."""

    def allowed(address: tuple[str, int], timeout_s: float) -> socket.socket:
        return connect(*address, timeout_s, endpoint.tls, transports.plain_remote)

    tls = transports.tls() if endpoint.tls else None
    client = ThreadedClient(endpoint.host, endpoint.port, STEP_S, tls, allowed)
    with reachable(), closing(client):
        status, _ = client.ask("POST", endpoint.path, {"User-Agent": SENDER, **headers}, body, 0)
    if not 200 <= status < 300:
        raise DeliveryFailed(f"it answered {status}", status >= 500 or status in PASSING, status)


def post_webhook(transports: Transports, notification: Notification) -> None:
    """Tell a webhook."""
    post(transports, notification, payloads.webhook(notification, transports.node))


def post_slack(transports: Transports, notification: Notification) -> None:
    """Tell a chat."""
    post(transports, notification, payloads.slack(notification, transports.node))


class Mailer(smtplib.SMTP):
    """A dialogue with a mail server at an address that may be connected to."""

    def __init__(self, transports: Transports, notification: Notification) -> None:
        """Connect; with TLS from the beginning if the receiver wants that."""
        self._transports = transports
        self._mode = notification.receiver.tls
        super().__init__(notification.receiver.host, notification.receiver.port, timeout=STEP_S)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        """See smtplib.SMTP, which connects by this."""
        bare = connect(host, port, timeout, self._mode != "none", self._transports.plain_remote)
        return self._transports.tls().wrap_socket(bare, server_hostname=host) if self._mode == "tls" else bare


def post_mail(transports: Transports, notification: Notification) -> None:
    """Send an e-mail."""
    receiver = notification.receiver
    with Mailer(transports, notification) as mailer:
        if receiver.tls == "starttls":
            mailer.starttls(context=transports.tls())
        if receiver.user:
            mailer.login(receiver.user, receiver.password)
        mailer.send_message(payloads.mail(notification, transports.node))


SENDS: dict[str, Callable[[Transports, Notification], None]] = {
    "webhook": post_webhook,
    "slack": post_slack,
    "email": post_mail,
}
