"""What of a stream is new to an archive."""

import pytest

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark import archive
from leveret.spark.archive import News, new_records
from leveret.spark.spans import OffsetSpan
from leveret.spark.streams import BlockGroup, Ends, StreamSource, Survey


class Kept:
    """A place of which only the ends are known."""

    def __init__(self, *ends: Ends) -> None:
        self._ends = dict(enumerate(ends))

    def survey(self) -> Survey:
        return Survey(7, self._ends)

    def stream(self, name: str) -> "Kept":
        return self

    def streams(self) -> list[str]:
        raise NotImplementedError

    def at(self, timestamp_ms: int) -> dict[int, int]:
        raise NotImplementedError

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        raise NotImplementedError

    def piece(self, span: OffsetSpan) -> BlockGroup:
        raise NotImplementedError

    def note(self, group: str, offsets: dict[int, int]) -> None:
        raise NotImplementedError


@pytest.fixture
def clicks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of two partitions; retention has removed ten records of the second."""
    place = Kept(Ends(0, 7), Ends(10, 20))
    monkeypatch.setattr(archive, "live_source", lambda options: StreamSource.of(place, {"stream": "clicks", **options}))


@pytest.mark.parametrize(
    ("archived", "start", "missing", "records"),
    [
        ({}, {"0": 0, "1": 10}, 0, 17),
        ({"0": 7, "1": 12}, {"0": 7, "1": 12}, 0, 8),
        ({"0": 7, "1": 20}, {"0": 7, "1": 20}, 0, 0),
        ({"0": 3, "1": 6}, {"0": 3, "1": 10}, 4, 14),
    ],
)
@pytest.mark.usefixtures("clicks")
def test_new_is_what_comes_after_what_is_archived(
    archived: dict[str, int], start: dict[str, int], missing: int, records: int
) -> None:
    news = new_records({}, archived)
    assert news == News(start, {"0": 7, "1": 20}, missing)
    assert news.records == records


@pytest.mark.usefixtures("clicks")
def test_a_stream_that_was_made_anew_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="made anew"):
        new_records({}, {"0": 8})


def test_a_stream_has_to_be_somewhere() -> None:
    with pytest.raises(InvalidArgument, match="--path or --url"):
        new_records({}, {})
