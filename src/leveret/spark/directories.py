"""Directories: what a path or a URI names, the same for Python, for Spark and on every machine.

    data, ./data, /var/data             a path, of the working directory if it is relative
    file:/var/data, file:///var/data    the same as a URI; %20 is a space
    s3://bucket/archive, gs:, az:, abfs:    an object store: only archives may be there
    s3://bucket/data, hdfs:...          otherwise refused: Python would take it for a directory `s3:`

Spark resolves a path by the default file system and the working directory of its own process, and takes brackets for
patterns; so it is given whole URIs only.
"""

import os
import re
from urllib.parse import unquote, urlsplit

from leveret.core.errors import InvalidArgument
from leveret.storage.options import is_url

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)|(file):", re.IGNORECASE)
_PATTERNS = re.compile(r"([\[\]{}*?\\])")
LOCAL_HOSTS = ("", "localhost")
STORES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")
"""Schemes of object stores."""


def is_stored(place: str) -> bool:
    """Whether an archive is in an object store."""
    return (uri := _URI.match(place)) is not None and (uri[1] or uri[2]).lower() in STORES


def archive_place(option: str, place: str) -> str:
    """Where an archive is: the URI of an object store as it is, or the absolute path of a directory."""
    if not is_stored(place):
        return directory(option, place)
    parts = urlsplit(place)
    if (
        not parts.netloc
        or ("@" in parts.netloc and parts.scheme in ("s3", "s3a", "gs"))
        or parts.query
        or parts.fragment
    ):
        raise InvalidArgument(
            f"{option}: write {parts.scheme}://BUCKET/FOLDER, and give credentials by the variables of the store"
        )
    return place.rstrip("/")


def directory(option: str, place: str) -> str:
    """The absolute path of what an option names; what is one already stays as it is."""
    uri = _URI.match(place)
    if uri is None:
        return os.path.abspath(place)
    scheme = (uri[1] or uri[2]).lower()
    if is_url(place):
        raise InvalidArgument(
            f"{option} {scheme}://...: a journal in PostgreSQL is no directory; archive it with `leveret pipeline "
            "archive --store URL`, and name the archive here"
        )
    if scheme != "file":
        raise InvalidArgument(
            f"{option} {place!r}: {scheme} is not supported, only directories are; mount it as a directory that every "
            "machine of the job sees, or write to one and copy it there"
        )
    parts = urlsplit(place.replace("?", "%3F").replace("#", "%23"))
    if parts.netloc.lower() not in LOCAL_HOSTS:
        raise InvalidArgument(
            f"{option} {place!r}: {parts.netloc!r} is another machine; mount its directory and give the path, or write "
            "file:///PATH for one of this machine"
        )
    if not parts.path.startswith("/"):
        raise InvalidArgument(f"{option} {place!r}: write file:///PATH with the whole path, or a path without file:")
    return os.path.abspath(unquote(parts.path))


def uri_of(path: str) -> str:
    """A directory as Spark writes to it, wherever it has files of its own."""
    return f"file://{os.path.abspath(path)}"


def pattern_of(path: str) -> str:
    """A file or directory as Spark reads it, which looks for patterns in paths."""
    return _PATTERNS.sub(r"\\\1", uri_of(path))
