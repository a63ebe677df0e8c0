"""Python alone: twins of compiled modules that answer as these do, and clients where nothing compiled is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import properties, tables
from leveret.core.errors import InvalidArgument
from leveret.http_client import AnswerReader
from leveret.pure import TWINS, Missing, blocks, columns, http_parser, spec_of
from leveret.pure import properties as pure_properties
from leveret.pure import tables as pure_tables
from leveret.storage.journal.columns import KINDS
from leveret.storage.journal.records import crc32c
from leveret.storage.stream import blocks as compiled_blocks
from leveret.storage.stream.blocks import Appender, BlockColumns
from leveret.storage.stream.index import Producers
from tests.server_process import ServerProcess
from tests.sources import ROOT

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=0)
)
KEYS = st.text("abcäöü€", max_size=40)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | KEYS
    | st.binary() | MOMENTS | st.decimals(0, 1_000_000, places=3)
)  # fmt: skip
HEADERS = st.dictionaries(
    KEYS, st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
)


@given(HEADERS)
def test_tables_are_the_same_bytes_and_the_same_values(headers: dict[str, Any]) -> None:
    data = tables.encode_table(headers)
    assert pure_tables.encode_table(headers) == data
    assert pure_tables.decode_table(data) == tables.decode_table(data)


@given(st.binary(max_size=60))
def test_hostile_tables_are_refused_alike(data: bytes) -> None:
    whole = len(data).to_bytes(4) + data
    try:
        found = tables.decode_table(whole)
    except tables.MalformedTable:
        with pytest.raises(pure_tables.MalformedTable):
            pure_tables.decode_table(whole)
    else:
        assert repr(pure_tables.decode_table(whole)) == repr(found)


@pytest.mark.parametrize(
    "headers",
    [
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
        {"long": "x" * 200_000},
        {"x" * 300: 1},
        {"wide": 1 << 64},
        {"set": {1}},
        {"many": [None] * 5_000},
        {"negative": Decimal(-1)},
        {"naive": datetime(2026, 1, 1)},
    ],
)
def test_what_does_not_fit_a_table_is_refused_in_the_same_words(headers: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        tables.encode_table(headers)
    with pytest.raises(InvalidArgument) as refused_here:
        pure_tables.encode_table(headers)
    assert str(refused_here.value) == str(refused.value)


PROPERTIES: dict[str, Any] = {
    "content_type": "text/plain", "content_encoding": "gzip", "headers": {"a": [1, {"b": "c"}]}, "delivery_mode": 2,
    "priority": 9, "correlation_id": "c", "reply_to": "r", "expiration": "1000", "message_id": "m",
    "timestamp": 1_700_000_000, "type": "t", "user_id": "u", "app_id": "a", "cluster_id": "k",
}  # fmt: skip


@pytest.mark.parametrize("left_out", [*PROPERTIES, None, "all"])
def test_content_headers_are_the_same(left_out: str | None) -> None:
    told = {name: value for name, value in PROPERTIES.items() if name != left_out and left_out != "all"}
    header = properties.encode_header(properties.Properties(**told), 7)
    assert pure_properties.encode_header(pure_properties.Properties(**told), 7) == header
    found = pure_properties.decode_header(header)
    assert {name: getattr(found, name) for name in told} == told
    assert pure_properties.content(pure_properties.Properties(**told), b"1234567") == (header + b"1234567", len(header))
    for end in range(len(header)):
        with pytest.raises(pure_tables.MalformedTable):
            pure_properties.decode_header(header[:end])


@given(st.binary(max_size=100))
def test_checksums_are_the_same(data: bytes) -> None:
    assert blocks.crc32c(data) == crc32c(data)


def test_blocks_of_a_stream_give_the_same_columns() -> None:
    end = Appender(5, 0, 1 << 20, Producers())
    for number in range(20):
        header = properties.encode_header(properties.Properties(message_id=str(number)), 3)
        end.append(number, b"\0\1k", header + b"abc", len(header), b"f" * (number % 3), b"p" * (number % 2), number)
    block = end.oldest()
    assert block is not None
    data = bytes(3) + bytes(block.finish(7, 0))
    head, known = blocks.block_at(data, 3), compiled_blocks.block_at(data, 3)
    assert head is not None
    assert known is not None
    assert head == blocks.BlockHead(known.first, known.count, known.start, known.end)
    for wanted in ((), ("body",), compiled_blocks.TEXTS):
        here, there = blocks.BlockColumns(7, 20, wanted), BlockColumns(7, 20, wanted)
        for each in (here, there):
            assert each.add(data, head.start, head.end, head.first, head.count)
        assert (here.rows, here.size_bytes) == (there.rows, there.size_bytes)
        assert here.take() == there.take()
        assert not here.add(data, head.start, head.end - 1, head.first, head.count)
        assert not here.add(data, head.start, head.end, head.first, head.count - 1)
    for place in range(3, len(data)):
        assert blocks.block_at(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], 3) is None
    assert blocks.block_at(data[:-1], 3) is blocks.block_at(data, -1) is None


def test_twins_know_what_the_compiled_modules_know() -> None:
    assert set(columns.KINDS.values()) >= set(KINDS.values())
    for name in ("TABLE_DEPTH_MAX", "TABLE_FIELDS_MAX", "TABLE_BYTES_MAX", "STORED_FIELDS_MAX", "STORED_BYTES_MAX"):
        assert getattr(pure_tables, name) == getattr(tables, name)
    for name in ("MAGIC", "HEAD_BYTES", "BLOCK_BYTES_MAX", "TEXTS"):
        assert getattr(blocks, name) == getattr(compiled_blocks, name)


ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b\r\n\r\nhello",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    b"HTTP/1.0 200\r\nContent-Length: 0\r\n\r\n",
)


class Heard:
    """Notes what a parser tells."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.body = b""
        self.parser: Any = None

    def on_header(self, name: bytes, value: bytes) -> None:
        self.told.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.told.append(("head",))

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.told.append((self.parser.get_status_code(), self.parser.should_keep_alive(), self.body))
        self.body = b""


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_answers_are_told_as_by_the_parser_of_c(answer: bytes, size: int) -> None:
    found = []
    for parser in (http_parser.HttpResponseParser, httptools.HttpResponseParser):
        heard = Heard()
        reading = heard.parser = parser(heard)
        for at in range(0, len(answer), size):
            reading.feed_data(answer[at : at + size])
        found.append(heard.told)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"x" * (http_parser.LINE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(http_parser.HttpParserError):
        http_parser.HttpResponseParser(Heard()).feed_data(answer)


def test_what_is_missing_says_so_when_it_is_used() -> None:
    assert spec_of("leveret.core.queue") is not None
    assert spec_of("leveret.core.nothing") is spec_of("leveret.client.queue") is None
    for name in TWINS:
        import_module(name.rpartition(".")[0])  # its package says what is compiled
        assert spec_of(name) is not None
    missing: Any = type("Queue", (Missing,), {"__module__": "leveret.core.queue"})
    assert list(missing) == []
    with pytest.raises(ImportError, match=r"leveret.core.queue.Queue needs Leveret's compiled modules.*a wheel"):
        missing()
    assert AnswerReader().feed(ANSWERS[0]) is not None


def test_a_client_and_the_sources_of_spark_work_where_nothing_is_compiled(tmp_path: Path) -> None:
    """As from --py-files: an archive of the modules in Python, and no library but Arrow and Spark."""
    archive = tmp_path / "leveret.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted((ROOT / "src").rglob("*.py*")):
            if path.suffix in (".py", ".pyi"):
                file.write(path, path.relative_to(ROOT / "src"))
    absent = tmp_path / "absent"
    absent.mkdir()
    for name in ("httptools", "re2", "orjson", "obstore", "uvloop"):
        (absent / f"{name}.py").write_text("raise ImportError\n")
    with ServerProcess(tmp_path) as server:
        words = [sys.executable, str(Path(__file__).with_name("pure_child.py")), server.http_url, server.url]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (archive, absent)))}
        done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()[-4000:]
    told = json.loads(done.stdout)
    assert told.pop("from").startswith(str(archive))
    assert told == {
        "received": ["one", {"two": 2}],
        "stream": ["0", "1", "2"],
        "headers": [[["kind", "a"]], [["kind", "a"]], [["kind", "a"]]],
        "queue": ["x", "y"],
        "published": ["x", "y"],
        "amqp": ["g", 200_000, {"two": 2}],
        "compiled": [],
    }
