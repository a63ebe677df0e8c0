"""Alerts: what is wrong now, rules, silences, what happened, and who is told. An addition to RabbitMQ's API."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from leveret.core.broker import Broker
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.rules import AlertRuleSettings
from leveret.observability.alerting.service import begin_silence
from leveret.observability.alerting.silences import Silence
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall, change, enters, has, sees
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, row, rows
from leveret.protocols.management.refusals import BadRequest, NotAuthorised, answer, done

TOLD = frozenset(("unit", "changed", "place", "problem", "waiting"))
"""What only answers have: a client that sends one back with something changed need not take it out."""
PATTERN = re.compile(r"[*?\[]")
EVENTS = 100
EVENTS_MAX = 1_000


def list_alerts(call: ManagementCall) -> Answered:
    """What is wrong in the virtual hosts that the user sees, the worst first."""
    with call.runtime:
        found = call.context.alerts.alerts()
    return listed(call, [row for row in found if sees(call, row["vhost"])], name=lambda row: str(row["queue"]))


def list_events(call: ManagementCall) -> Answer:
    """What happened lately, the newest first."""
    limit = call.number("limit")
    if limit is not None and limit > EVENTS_MAX:
        raise BadRequest(f"limit is at most {EVENTS_MAX}: ask for fewer")
    with call.runtime as core:
        virtual_hosts = frozenset(virtual_host.name for virtual_host in call.virtual_hosts(core))
        return answer(call.context.alerts.history.recent(EVENTS if limit is None else limit, virtual_hosts))


def put(
    call: ManagementCall,
    kind: str,
    known: Callable[[], Iterable[AlertRuleSettings | Receiver]],
    put_one: Callable[[Row], object],
) -> Answered:
    """Add or replace what was sent, under the name that the path has."""

    def keep(core: Broker) -> Answer:
        name = call.named(kind)
        replaces = any(each.name == name for each in known())
        put_one({**{field: value for field, value in call.body.items() if field not in TOLD}, "name": name})
        return done(204 if replaces else 201)

    return call.change(keep)


# Rules


@rows
def list_rules(call: ManagementCall, core: Broker) -> list[Row]:
    """Every rule."""
    book = call.context.alerts.book
    changed = {rule.name for rule in book.changed_rules()}
    return [{**rule.to_dict(), "unit": rule.unit, "changed": rule.name in changed} for rule in book.rules()]


@row
def look_at_rule(call: ManagementCall, core: Broker) -> Row:
    """One of them."""
    rule = call.context.alerts.book.rule(call.named("rule"))
    return {**rule.to_dict(), "unit": rule.unit}


def put_rule(call: ManagementCall) -> Answered:
    """Add or replace a rule."""
    book = call.context.alerts.book
    return put(call, "rule", book.rules, book.put_rule)


delete_rule = change("alerts.clear", lambda call, core: {"name": call.named("rule")})


# Silences


@rows
def list_silences(call: ManagementCall, core: Broker) -> list[Row]:
    """The silences in virtual hosts that the user sees, the one that ends first in front."""
    virtual_hosts = [virtual_host.name for virtual_host in call.virtual_hosts(core)]
    return [each.to_dict() for each in call.context.alerts.book.silences() if any(map(each.is_in, virtual_hosts))]


async def add_silence(call: ManagementCall) -> Answer:
    """Begin a silence, in the name of the user."""
    alerts, body = call.context.alerts, call.body
    check_place(call, body.get("vhost"))
    silence = await awaited(call.change(lambda core: begin_silence(alerts.book, body, call.user, core.now_ms)))
    alerts.silenced(silence)
    return answer(silence.to_dict(), 201)


async def delete_silence(call: ManagementCall) -> Answer:
    """End a silence."""
    alerts, name = call.context.alerts, call.named("silence")

    def remove(core: Broker) -> Silence:
        check_place(call, alerts.book.silence(name).vhost)
        return alerts.book.delete_silence(name)

    alerts.unsilenced(await awaited(call.change(remove)), call.user)
    return done()


def check_place(call: ManagementCall, vhost: object) -> None:
    """Refuse who would silence others: patterns of virtual hosts are for administrators."""
    if has(call, "administrator"):
        return
    if not isinstance(vhost, str) or PATTERN.search(vhost) or not enters(call, vhost):
        raise NotAuthorised("User not authorised to silence that: name a virtual host that you may enter")


# Receivers


# Without their secrets.
list_receivers = rows(lambda call, core: call.run("alerts.receivers"))
look_at_receiver = row(lambda call, core: call.context.alerts.book.receiver(call.named("receiver")).shown())
delete_receiver = change("alerts.forget", lambda call, core: {"name": call.named("receiver")})


def put_receiver(call: ManagementCall) -> Answered:
    """Add or replace a receiver; secrets that are left out stay."""
    book = call.context.alerts.book
    return put(call, "receiver", book.receivers, book.put_receiver)


async def test_receiver(call: ManagementCall) -> Answer:
    """Send a test now, and say what became of it."""
    return answer(await call.run("alerts.test", name=call.named("receiver")))
