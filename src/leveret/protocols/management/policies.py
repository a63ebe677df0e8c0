"""Policies, and those of operators: the same endpoints for both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leveret.core.broker import Broker
from leveret.core.policy import Policy
from leveret.core.topology import Vhost
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall, spelled
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.refusals import Missing, done
from leveret.protocols.management.rules import seen
from leveret.protocols.management.validation import checked_policy, invalid, term

Ask = Callable[[ManagementCall], Answer | Awaitable[Answer]]


def shown(virtual_host: Vhost, policy: Policy) -> Row:
    """A policy; which sort it is tells its path."""
    row = policy.shown()
    del row["operator"]
    return {"vhost": virtual_host.name, **row}


def rows(virtual_host: Vhost, operator: bool) -> list[Row]:
    """The policies of one sort in a virtual host."""
    found = virtual_host.operator_policies if operator else virtual_host.policies
    return [shown(virtual_host, policy) for _, policy in sorted(found.items())]


def operator_policy(name: str, value: Row) -> Policy:
    """The policy of an operator that a parameter is."""
    priority, apply_to = value.get("priority", 0), value.get("apply-to", "all")
    return checked_policy(name, value.get("pattern", ""), priority, apply_to, value.get("definition", {}), True)


def put_policy(call: ManagementCall, vhost: str, policy: Policy) -> None:
    """Add or replace a policy that was checked."""
    call.run(
        "policies.set",
        vhost=vhost,
        name=policy.name,
        pattern=policy.pattern,
        definition=policy.definition,
        priority=policy.priority,
        apply_to=policy.apply_to,
        operator=policy.operator,
    )


def list_all(operator: bool) -> Ask:
    """Those of every virtual host that the user sees."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            virtual_hosts = seen(call, core)
            found = [row for virtual_host in virtual_hosts for row in rows(virtual_host, operator)]
        return listed(call, found)

    return ask


def list_vhost(operator: bool) -> Ask:
    """Those of one."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            found = rows(call.virtual_host(core), operator)
        return listed(call, found)

    return ask


def look(operator: bool) -> Ask:
    """One policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        with call.context.async_broker.runtime as core:
            return one(call, _find(call, call.virtual_host(core), operator))

    return ask


def _find(call: ManagementCall, virtual_host: Vhost, operator: bool) -> Row:
    found = next((row for row in rows(virtual_host, operator) if row["name"] == call.named("policy")), None)
    if found is None:
        raise Missing()
    return found


def put(operator: bool) -> Ask:
    """Add or replace a policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        call.need("definition", "pattern")
        pattern, priority = call.body["pattern"], spelled(call.body.get("priority", 0), int)
        if not isinstance(pattern, str):
            raise invalid(f"pattern should be a binary but was {term(pattern)}")
        if not isinstance(priority, int) or isinstance(priority, bool):
            raise invalid(f"priority should be a number, actually was {term(priority)}")
        apply_to, definition = call.body.get("apply-to", "all"), call.body["definition"]
        policy = checked_policy(call.named("policy"), pattern, priority, apply_to, definition, operator)

        def keep(core: Broker) -> Answer:
            virtual_host = call.virtual_host(core)
            known = policy.name in (virtual_host.operator_policies if operator else virtual_host.policies)
            put_policy(call, virtual_host.name, policy)
            return done(204 if known else 201)

        return call.change(keep)

    return ask


def delete(operator: bool) -> Ask:
    """Remove a policy."""

    def ask(call: ManagementCall) -> Answer | Awaitable[Answer]:
        def found(core: Broker) -> Row:
            row = _find(call, call.virtual_host(core), operator)
            return {"vhost": row["vhost"], "name": row["name"], "operator": operator}

        return call.changed("policies.clear", found)

    return ask
