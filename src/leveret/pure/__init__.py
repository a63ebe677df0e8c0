"""Where compiled modules are missing, clients and sources of Spark work with Python alone.

Modules that they use have a twin here, slower and with the same answers. Other compiled modules can be imported, as
code that clients share with the broker does; what they have says what is missing when it is used. With compiled modules
nothing of this is imported.

blocks.py           reading blocks of streams
columns.py          the kinds of events by name
http_parser.py      answers of HTTP/1.1
properties.py       content headers
tables.py           field tables
traffic.py          the frames of a client over AMQP
"""

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

TWINS = {
    "leveret.client.amqp.traffic": "leveret.pure.traffic",
    "leveret.core.properties": "leveret.pure.properties",
    "leveret.core.tables": "leveret.pure.tables",
    "leveret.storage.journal.columns": "leveret.pure.columns",
    "leveret.storage.stream.blocks": "leveret.pure.blocks",
}

_LISTED = re.compile(r"^ *(\w+)\.pyx ", re.MULTILINE)


def spec_of(name: str) -> ModuleSpec | None:
    """How a module is made that would be compiled: its package lists it."""
    package, _, module = name.rpartition(".")
    listed = _LISTED.findall(sys.modules[package].__doc__ or "")
    return ModuleSpec(name, PureLoader()) if module in listed else None


class PureLoader(Loader):
    """Gives the twin of a module, or one whose names cannot be used."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return import_module(TWINS[spec.name]) if spec.name in TWINS else None

    def exec_module(self, module: ModuleType) -> None:
        module.__getattr__ = lambda name: missing(module, name)  # type: ignore[method-assign]


def missing(module: ModuleType, name: str) -> type:
    """What a name of a module is that is not there: a class for types and bases, which cannot be made."""
    if name.startswith("__"):
        raise AttributeError(name)
    made: type = type(name, (Missing,), {"__module__": module.__name__})
    setattr(module, name, made)
    return made


class MissingType(type):
    """Lets what is missing be listed: there is nothing in it."""

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Missing(metaclass=MissingType):
    """Stands for something compiled."""

    def __new__(cls, *arguments: Any, **options: Any) -> NoReturn:
        raise ImportError(
            f"{cls.__module__}.{cls.__name__} needs Leveret's compiled modules, which are not there: install a wheel "
            "for this machine, or build one (`pip install leveret` where there is a C compiler)"
        )
