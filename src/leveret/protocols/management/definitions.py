"""Definitions as files: everything or one virtual host given out, and taken in again, also from RabbitMQ and as a form
(multipart/form-data) of a browser.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from leveret.observability.logs import Log
from leveret.operations.definitions import SECTIONS
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import JSON, Answer, Headers, Streamed
from leveret.protocols.management.call import ManagementCall, parsed
from leveret.protocols.management.context import API_VERSION, PRODUCT, Row
from leveret.protocols.management.refusals import NO_CACHE, BadRequest, answer, done
from leveret.security.passwords import hashed_row

OF_VHOST: tuple[str, ...] = ("parameters", "policies", "exchanges", "queues", "bindings", "queue_details")
STEP = 200  # objects that are taken in or given out in one hold of the lock
TOLD_MAX = 100  # reasons that one answer tells
PASSWORDS_MAX = 1_000  # in one file: hashing is dear on purpose

_FILE_NAME = re.compile(r"[^\w.-]")
LOG = Log("management")


def give_out(call: ManagementCall) -> Answer:
    """Everything that is defined, or what is in the virtual host that the path names; a file, sent a part at a time."""
    vhost, sections = _vhost(call), OF_VHOST
    head: Row = {"rabbit_version": API_VERSION}
    if vhost is None:
        head |= {"rabbitmq_version": API_VERSION, "product_name": PRODUCT}
        head["product_version"] = call.context.process.version
        sections = tuple(SECTIONS)
    return Streamed(_parts(call, head, sections, vhost), JSON, (*NO_CACHE, *_attachment(call)))


def _vhost(call: ManagementCall) -> str | None:
    """The virtual host that the path names, if it does."""
    if "vhost" not in call.request.parameters:
        return None
    with call.runtime as core:
        return call.virtual_host(core).name


async def _parts(
    call: ManagementCall, head: Row, sections: tuple[str, ...], vhost: str | None
) -> AsyncGenerator[bytes, None]:
    """The head, then each section, some objects in each turn of the loop."""
    yield json.dumps(head)[:-1].encode()
    for section in sections:
        with call.runtime:
            rows = [row for row in SECTIONS[section][0](call.context.operations) if vhost in (None, row.get("vhost"))]
        if vhost is not None and section not in ("parameters", "policies"):
            rows = [{key: row[key] for key in row if key != "vhost"} for row in rows]
        yield f',"{section}":['.encode()
        for start in range(0, len(rows), STEP):
            yield (b"," if start else b"") + json.dumps(rows[start : start + STEP], separators=(",", ":"))[
                1:-1
            ].encode()
            await asyncio.sleep(0)
        yield b"]"
    yield b"}"


def _attachment(call: ManagementCall) -> Headers:
    """The header that makes browsers keep an answer in a file."""
    name = _FILE_NAME.sub("_", call.request.query.get("download", ""))[:100]
    return (("Content-Disposition", f"attachment; filename={name}"),) if name else ()


# Taking in


def _file(call: ManagementCall) -> Row:
    """The file, as it is or in a form."""
    request = call.request
    body = request.body
    if request.media_type == "multipart/form-data":
        body = form(request.header(b"content-type"), body).get("file", b"")
    found = parsed(body, "failed_to_parse_json")
    if not isinstance(found, dict):
        raise BadRequest("failed_to_parse_json")
    for section in SECTIONS:
        if not isinstance(found.get(section, []), list):
            raise BadRequest(f"{section} is not a list: correct the file")
    if sum(isinstance(row, dict) and "password" in row for row in found.get("users", [])) > PASSWORDS_MAX:
        raise BadRequest(f"the file has over {PASSWORDS_MAX} passwords: split it, or send password_hash")
    return found


async def take_in(call: ManagementCall) -> Answer:
    """Add what a file defines to what there is, in all virtual hosts or in one; what contradicts that stays as it is.

    Some objects are taken in in each turn of the loop, each time until they are durable.
    """
    vhost, file = _vhost(call), _file(call)
    skipped: list[str] = []
    for section in SECTIONS if vhost is None else OF_VHOST:
        objects = [_placed(row, vhost) for row in file.get(section, [])]
        for start in range(0, len(objects), STEP):
            some = objects[start : start + STEP]
            if section == "users":
                some = [await _hashed(row, call.context.access.password_chars_min) for row in some]
            skipped += await _taken_some(call, section, some, vhost or "/")
            await asyncio.sleep(0)
    for reason in skipped[:TOLD_MAX]:
        LOG.warning("definition left out", reason=reason)
    return answer({"skipped": skipped[:TOLD_MAX]}) if skipped else done()


async def _hashed(row: Any, chars_min: int) -> Any:
    """A user without its password, which is hashed in another thread."""
    return await asyncio.to_thread(hashed_row, row, chars_min) if isinstance(row, dict) and "password" in row else row


async def _taken_some(call: ManagementCall, section: str, objects: list[Any], vhost: str) -> list[str]:
    """Take in some objects; why some of them were left out."""
    arguments = {"section": section, "objects": objects, "vhost": vhost}
    taken = await awaited(call.change(lambda core: call.run("definitions.import", **arguments)))
    return [f"{row['object']}: {row['reason']}" for row in taken["skipped"]]


def _placed(row: Any, vhost: str | None) -> Any:
    """An object in the virtual host that the file is for, whatever it was exported from."""
    return {**row, "vhost": vhost} if vhost is not None and isinstance(row, dict) else row


PARTS_MAX = 10
BOUNDARY_CHARS_MAX = 70  # as the standard has it


def form(content_type: str, body: bytes) -> dict[str, bytes]:
    """The fields of a form by name."""
    boundary = _parameters(content_type).get("boundary", "")
    if not 0 < len(boundary) <= BOUNDARY_CHARS_MAX:
        raise BadRequest("the form has no boundary: send multipart/form-data as browsers do")
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("latin-1"), PARTS_MAX + 2)
    if len(pieces) > PARTS_MAX + 2 or len(pieces) < 2:
        raise BadRequest(f"the form has no end, or over {PARTS_MAX} fields")
    fields: dict[str, bytes] = {}
    for piece in pieces[1:]:
        if piece.startswith(b"--"):
            return fields
        head, found, value = piece.partition(b"\r\n\r\n")
        fields[_name(head)] = value if found else b""
    raise BadRequest("the form has no end: it was cut off")


def _name(head: bytes) -> str:
    """The name of a field, from the lines before it."""
    for line in head.decode("latin-1").split("\r\n"):
        label, _, value = line.partition(":")
        if label.strip().lower() == "content-disposition":
            return _parameters(value).get("name", "")
    return ""


def _parameters(header: str) -> dict[str, str]:
    """The parameters of a header; quotes are taken off."""
    found = {}
    for part in header.split(";")[1:]:
        name, _, value = part.partition("=")
        found[name.strip().lower()] = value.strip().strip('"')
    return found
