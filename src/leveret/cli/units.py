"""Numbers for people: bytes, counts and times in a few characters."""

STEP = 1024
BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
COUNTS = ("", "k", "M", "G", "T", "P")
TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def in_bytes(number: float) -> str:
    """A number of bytes."""
    return _scaled(number, STEP, BYTES, " ")


def in_short(number: float) -> str:
    """A count or a rate."""
    return _scaled(number, 1000, COUNTS, "")


def in_time(seconds: float) -> str:
    """A length of time, in the largest unit of which there is one."""
    for size, unit in TIMES:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0) * 1000:.0f} ms"


def _scaled(number: float, step: int, units: tuple[str, ...], gap: str) -> str:
    """Three digits, and how large they are."""
    index = 0
    while number >= step and index < len(units) - 1:
        number /= step
        index += 1
    digits = 0 if number >= 100 or (index == 0 and (number >= 10 or number == int(number))) else 1
    return f"{number:.{digits}f}{gap}{units[index]}"
