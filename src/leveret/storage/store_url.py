"""Where a log is: the path of a directory, or the URL of a database."""

import re

SCHEMES = ("postgresql://", "postgres://")
PASSWORD = re.compile(r"(?<=[?&]password=)[^&]*|(?<=[?&]sslpassword=)[^&]*")
USER_PASSWORD = re.compile(r"^(\w+://[^/?:@]*):[^/]*@")


def is_url(place: str) -> bool:
    """Whether a place is the URL of a database."""
    return place.startswith(SCHEMES)


def shown(place: str) -> str:
    """A place as it may be logged: without a password."""
    return PASSWORD.sub("", USER_PASSWORD.sub(r"\1@", place)) if is_url(place) else place
