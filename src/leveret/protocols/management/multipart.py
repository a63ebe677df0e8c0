"""The file in a form that a browser sends (multipart/form-data), and the other fields of that form."""

from leveret.protocols.management.refusals import BadRequest

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
