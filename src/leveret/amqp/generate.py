"""Writes methods.py from the table in spec.py: `python -m leveret.amqp.generate`."""

from pathlib import Path

from leveret.amqp.spec import METHODS, MethodSpec

TARGET = Path(__file__).with_name("methods.py")
HEADER = '''"""The methods of AMQP 0-9-1 as objects. Generated from spec.py by leveret.amqp.generate: do not edit."""

from dataclasses import dataclass, field
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Method:
    """What every method is; its subclasses are frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        """Make a dataclass of it."""
        dataclass(frozen=True)(cls)
'''
FIELDS = {
    "octet": "int = 0",
    "short": "int = 0",
    "long": "int = 0",
    "longlong": "int = 0",
    "bit": "bool = False",
    "shortstr": 'str = ""',
    "longstr": 'bytes = b""',
    "table": "dict[str, Any] = field(default_factory=dict)",
}


def class_source(spec: MethodSpec) -> str:
    """The dataclass of one method."""
    about = f"{spec.name}; answered by {' or '.join(spec.replies)}." if spec.replies else f"{spec.name}."
    fields = [f"    {name}: {FIELDS[kind]}\n" for name, kind in spec.arguments if not name.startswith("_")]
    body = "\n" + "".join(fields) if fields else ""
    return f'\n\nclass {spec.class_name}(Method):\n    """{about}"""\n{body}'


def source() -> str:
    """The whole text of methods.py."""
    return HEADER + "".join(map(class_source, METHODS))


if __name__ == "__main__":
    TARGET.write_text(source())
