"""Where a log is: the path of a directory, or the URL of a database."""

SCHEMES = ("postgresql://", "postgres://")


def is_url(place: str) -> bool:
    """Whether a place is the URL of a database."""
    return place.startswith(SCHEMES)


def shown(place: str) -> str:
    """A place as it may be logged: without a password."""
    scheme, _, rest = place.partition("://")
    user, at, server = rest.partition("@")
    if not is_url(place) or not at:
        return place
    return f"{scheme}://{user.partition(':')[0]}@{server}"
