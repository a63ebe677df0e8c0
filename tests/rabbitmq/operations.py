"""The operations that scenarios are written in: short names for methods with the usual defaults."""

from typing import Any

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.rabbitmq.script import Op

Table = dict[str, Any]


def queue(name: str = "q", arguments: Table | None = None, *, durable: bool = True, **flags: bool) -> Op:
    """queue.declare"""
    return Op(m.QueueDeclare(name, durable=durable, arguments=arguments or {}, **flags))


def peek(name: str = "q") -> Op:
    """A passive queue.declare: how many messages and consumers it has."""
    return Op(m.QueueDeclare(name, passive=True))


def exchange(name: str = "x", type: str = "direct", arguments: Table | None = None, **flags: bool) -> Op:
    """exchange.declare"""
    return Op(m.ExchangeDeclare(name, type, arguments=arguments or {}, **({"durable": True} | flags)))


def bind(source: str = "x", target: str = "q", key: str = "", arguments: Table | None = None) -> Op:
    """queue.bind"""
    return Op(m.QueueBind(target, source, key, arguments=arguments or {}))


def bind_exchange(source: str, target: str, key: str = "", arguments: Table | None = None) -> Op:
    """exchange.bind"""
    return Op(m.ExchangeBind(target, source, key, arguments=arguments or {}))


def publish(key: str = "q", body: str = "m", source: str = "", *, mandatory: bool = False, **properties: Any) -> Op:
    """basic.publish"""
    return Op(m.BasicPublish(source, key, mandatory), Properties(**properties), body.encode())


def get(name: str = "q", *, no_ack: bool = True) -> Op:
    """basic.get"""
    return Op(m.BasicGet(name, no_ack))


def consume(name: str = "q", tag: str = "c", arguments: Table | None = None, **flags: bool) -> Op:
    """basic.consume"""
    return Op(m.BasicConsume(name, tag, arguments=arguments or {}, **flags))


def cancel(tag: str = "c") -> Op:
    """basic.cancel"""
    return Op(m.BasicCancel(tag))


def qos(count: int, *, shared: bool = False) -> Op:
    """basic.qos; `shared` is its global flag."""
    return Op(m.BasicQos(0, count, shared))


def ack(tag: int, *, multiple: bool = False) -> Op:
    """basic.ack"""
    return Op(m.BasicAck(tag, multiple))


def nack(tag: int, *, multiple: bool = False, requeue: bool = True) -> Op:
    """basic.nack"""
    return Op(m.BasicNack(tag, multiple, requeue))


def reject(tag: int, *, requeue: bool = False) -> Op:
    """basic.reject"""
    return Op(m.BasicReject(tag, requeue))


def delete(name: str = "q", **flags: bool) -> Op:
    """queue.delete"""
    return Op(m.QueueDelete(name, **flags))


def confirm() -> Op:
    """confirm.select"""
    return Op(m.ConfirmSelect())
