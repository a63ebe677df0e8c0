"""Structured logs: one line for each event, for people or for programs.

    2026-01-02T03:04:05.678Z INFO  connection opened peer=127.0.0.1:40000 user=guest
    {"time": "2026-01-02T03:04:05.678Z", "level": "info", "event": "connection opened", "peer": "127.0.0.1:40000", ...}

An event that happens while a request is answered has the id of that request, and the trace that it is part of.
The module `logging` carries them, so that what libraries have to say comes out in the same form. What a client sent is
escaped and cut: it can neither forge a line nor fill the disk with one event. What is called a secret is not written.
"""

import json
import logging
import re
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from time import monotonic
from typing import Any, ClassVar, Literal, TextIO
from weakref import WeakSet

ROOT = "leveret"
VALUE_CHARACTERS_MAX = 256
EVENT_CHARACTERS_MAX = 512
TRACEBACK_CHARACTERS_MAX = 8_192
LIMITED_S = 1.0  # between two lines of an event that clients can cause at will
HIDDEN = "(hidden)"
SECRET = re.compile(r"password|secret|token|response|key$")
PLAIN = re.compile(r"[\w.,:;/@+*#%(){}\[\]<>|~^!?$&'-]+", re.ASCII)

AROUND: ContextVar[Callable[[], Mapping[str, object]] | None] = ContextVar("leveret_around", default=None)
"""Gives the fields of what is being answered now; asked only when something is written."""


def around() -> Mapping[str, object]:
    """The fields that connect events of one request."""
    fields = AROUND.get()
    return {} if fields is None else fields()


class Log:
    """The events of one part of the server."""

    def __init__(self, part: str) -> None:
        """A log under the name `leveret.PART`."""
        self._logger = logging.getLogger(f"{ROOT}.{part}")

    def debug(self, event: str, **fields: object) -> None:
        """What helps only to search for a fault."""
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """What happened."""
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """What an operator should look at."""
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, error: BaseException | None = None, **fields: object) -> None:
        """What went wrong, with the place in our source if it was our fault."""
        self._log(logging.ERROR, event, fields, error)

    def announce(self, event: str, **fields: object) -> None:
        """What the operator waits for: written whatever the level is."""
        name = self._logger.name
        record = self._logger.makeRecord(name, logging.INFO, "", 0, event, (), None, extra={"fields": fields})
        self._logger.callHandlers(record)

    def limited(self, event: str, level: int = logging.WARNING, **fields: object) -> "LimitedEvent":
        """An event that clients can cause at will: it is written once a second at most."""
        return LimitedEvent(lambda more: self._log(level, event, {**fields, **more}))

    @property
    def is_debugging(self) -> bool:
        """Whether `debug` writes anything."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def _log(self, level: int, event: str, fields: dict[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": {**fields, **around()}}, exc_info=error)


class LimitedEvent:
    """An event that is written once a second at most; the others are counted, and the next line tells how many.

    Without it a flood of connections fills the disk with lines. Used by the thread of an event loop.
    """

    _all: ClassVar["WeakSet[LimitedEvent]"] = WeakSet()

    def __init__(self, write: Callable[[dict[str, object]], None], seconds: Callable[[], float] = monotonic) -> None:
        self._write = write
        self._seconds = seconds
        self._written_s = -LIMITED_S
        self._last: dict[str, object] = {}
        self._unwritten = 0
        self.count = 0
        """How often it happened."""
        self._all.add(self)

    def note(self, **fields: object) -> None:
        """It happens once more."""
        self.count += 1
        self._unwritten += 1
        self._last = fields
        self.flush()

    def flush(self) -> None:
        """Write a line for what happened since the last one, if that was a second ago."""
        now_s = self._seconds()
        if self._unwritten and now_s - self._written_s >= LIMITED_S:
            others = {"suppressed": self._unwritten - 1} if self._unwritten > 1 else {}
            self._written_s, self._unwritten = now_s, 0
            self._write({**self._last, **others})

    @classmethod
    def flush_all(cls) -> None:
        """The same for all of them; called about once a second, so that the end of a flood is told, too."""
        for each in list(cls._all):
            each.flush()


def clipped(value: object, characters_max: int = VALUE_CHARACTERS_MAX) -> object:
    """A value fit for a log: numbers as they are, everything else as text that is not too long."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= characters_max else text[: characters_max - 3] + "..."


def fields_of(record: logging.LogRecord, formatter: logging.Formatter) -> dict[str, object]:
    """What is to be said about an event besides its name."""
    given: dict[str, object] = getattr(record, "fields", {})
    fields = {name: HIDDEN if SECRET.search(name) else clipped(value) for name, value in given.items()}
    if record.exc_info:
        trace = formatter.formatException(record.exc_info)
        # The end says what happened, so it is the beginning that is cut.
        fields["traceback"] = trace[-TRACEBACK_CHARACTERS_MAX:]
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _event(record: logging.LogRecord) -> str:
    return str(clipped(record.getMessage(), EVENT_CHARACTERS_MAX))


def _quoted(value: object) -> str:
    """A value that ends where it seems to end, and has no control characters."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if PLAIN.fullmatch(text) else json.dumps(text)


class TextFormatter(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record, self).items()
        pairs = [f"{name}={_quoted(value)}" for name, value in fields if value is not None]
        # Escaped as a value would be, without the quotes: only our own words come here, or those of a library.
        event = json.dumps(_event(record))[1:-1]
        return " ".join([_time(record), f"{record.levelname:<7}", event, *pairs])


class JsonFormatter(logging.Formatter):
    """Lines for programs."""

    def format(self, record: logging.LogRecord) -> str:
        head: dict[str, Any] = {"time": _time(record), "level": record.levelname.lower(), "event": _event(record)}
        return json.dumps({**head, **fields_of(record, self), **head})  # first, and not to be replaced by a field


FORMATTERS: dict[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}


def start_logging(level: str, format: Literal["text", "json"], stream: TextIO = sys.stderr) -> logging.Handler:
    """Write every event of this process to a stream; give what `stop_logging` takes."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(FORMATTERS[format]())
    logging.root.addHandler(handler)
    logging.getLogger(ROOT).setLevel(level.upper())
    return handler


def stop_logging(handler: logging.Handler) -> None:
    """Take back what start_logging did."""
    logging.root.removeHandler(handler)
    logging.getLogger(ROOT).setLevel(logging.NOTSET)
