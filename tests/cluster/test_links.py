"""Two nodes that talk to each other, of the same version or not."""

import asyncio
import json
from typing import Any

import pytest

from leveret.cluster.rpc import link as links
from leveret.cluster.rpc import wire
from leveret.cluster.rpc.link import LinkStream, PeerLink
from leveret.cluster.rpc.wire import FrameKind
from tests.cluster.wires import Side


class Talk:
    """One end of a conversation, and what it was told."""

    def __init__(self) -> None:
        self.is_paused = False
        self.data = b""
        self.end: str | None = None

    def heard(self, data: bytes) -> None:
        self.data += data

    def paused(self, paused: bool) -> None:
        self.is_paused = paused

    def ended(self, reason: str) -> None:
        self.end = reason


class Wire:
    """Two nodes and a link between them."""

    def __init__(self, version: tuple[int, int], calls: str = "b") -> None:
        """One of them speaks another version, or calls another node."""
        self.sides = Side("a"), Side("b")
        own, wire.VERSION = wire.VERSION, version
        try:
            called = self.sides[0].link(calls)
        finally:
            wire.VERSION = own
        self.links = [called, self.sides[1].link()]
        self.carry()

    def carry(self) -> None:
        """Bring everything to the other side."""
        while any(side.sent for side in self.sides):
            for side, link in zip(self.sides, reversed(self.links), strict=True):
                data = bytes(side.sent)
                side.sent.clear()
                link.data_received(data)

    def ask(self, request: bytes) -> bytes | None:
        answers: list[bytes | None] = []
        self.links[0].ask(request, answers.append)
        self.carry()
        return answers[0]

    def close(self) -> None:
        for link in self.links:
            link.connection_lost(None)


def test_a_node_of_a_later_minor_version_is_talked_to() -> None:
    async def meet() -> None:
        met = Wire((wire.VERSION[0], wire.VERSION[1] + 1))
        assert all(side.is_up for side in met.sides)
        assert met.ask(b'{"known": "indeed"}') == b"yes, indeed"
        met.close()

    asyncio.run(meet())


@pytest.mark.parametrize("version", [(wire.VERSION[0] + 1, 0), (0, 9)])
def test_a_node_of_another_major_version_is_not(version: tuple[int, int]) -> None:
    async def meet() -> None:
        met = Wire(version)
        assert met.sides[1].hung_up
        assert not any(side.is_up for side in met.sides)
        met.close()

    asyncio.run(meet())


@pytest.mark.parametrize("request_", [b'{"unknown": 1}', b"no JSON", b"[]", b"7", b'{"known": 7}'])
def test_a_question_that_nobody_understands_is_refused_and_ends_nothing(request_: bytes) -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        answer = met.ask(request_)
        assert answer is not None
        assert wire.is_refusal(answer)
        assert met.ask(b'{"known": "still"}') == b"yes, still"
        assert not any(side.hung_up for side in met.sides)
        met.close()

    asyncio.run(meet())


def test_a_message_of_a_kind_that_is_not_known_yet_is_ignored() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        met.sides[0].write(
            wire.encode(FrameKind.UNKNOWN, 7, b"from the future").replace(b"\0\0\0\0\7", b"\xc8\0\0\0\7")
        )
        met.carry()
        assert met.ask(b'{"known": "still"}') == b"yes, still"
        met.close()

    asyncio.run(meet())


def test_whoever_does_not_listen_is_left_alone_however_fast_the_link_is() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        link, talk = met.links[0], Talk()
        number = link.open({}, talk)
        link.data_received(wire.encode(FrameKind.PAUSE, number))
        link.pause_writing()
        link.resume_writing()
        assert talk.is_paused
        link.pause_writing()
        link.data_received(wire.encode(FrameKind.RESUME, number))
        assert talk.is_paused
        late = Talk()
        link.open({}, late)
        assert late.is_paused
        link.resume_writing()
        assert not talk.is_paused
        assert not late.is_paused
        met.close()

    asyncio.run(meet())


def test_what_is_too_long_for_one_message_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MESSAGE_BYTES_MAX", 1_000)
    monkeypatch.setattr(links, "PIECE_BYTES", 300)

    async def meet() -> None:
        met = Wire(wire.VERSION)
        talk, said = Talk(), bytes(range(256)) * 10
        met.sides[1].opened = lambda link, number, request: talk  # type: ignore[method-assign]
        number = met.links[0].open({}, Talk())
        met.links[0].send(number, said)
        met.carry()
        assert talk.data == said
        met.sides[1].asked = lambda link, request, answer: answer(bytes(int(request)))  # type: ignore[method-assign]
        assert met.ask(b"1000".zfill(1_000)) == bytes(1_000)
        for question in (b"0".zfill(1_001), b"1001"):
            assert wire.is_refusal(met.ask(question) or b"")
        assert not any(side.hung_up for side in met.sides)
        met.close()

    asyncio.run(meet())


def test_a_conversation_that_nobody_understands_is_refused_and_ends_nothing() -> None:
    def opened(link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        return request["unknown"]  # type: ignore[no-any-return]

    async def meet() -> None:
        met, talk = Wire(wire.VERSION), Talk()
        met.sides[1].opened = opened  # type: ignore[method-assign]
        met.links[0].open({}, talk)
        met.carry()
        assert talk.end == "'unknown'"
        assert met.ask(b'{"known": "still"}') == b"yes, still"
        met.close()

    asyncio.run(meet())


def test_who_answers_in_the_place_of_another_node_is_not_talked_to() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION, calls="c")
        assert met.sides[0].hung_up
        assert not any(side.is_up for side in met.sides)
        met.close()

    asyncio.run(meet())


def test_numbers_begin_anew_when_there_are_no_more_and_those_in_use_are_left_out() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        talks = [Talk() for _ in range(4)]
        met.sides[1].opened = lambda link, number, request: talks[request["at"]]  # type: ignore[method-assign]
        link = met.links[0]
        first = link.open({"at": 0}, Talk())
        link._last_number = 2**32 - 5
        numbers = [first, *(link.open({"at": at}, Talk()) for at in range(1, 4))]
        for at, number in enumerate(numbers):
            link.send(number, str(at).encode())
        met.carry()
        assert [talk.data for talk in talks] == [b"0", b"1", b"2", b"3"]
        link._last_number = 2**32 - 3
        assert [met.ask(b'{"known": "still"}') for _ in range(2)] == [b"yes, still"] * 2
        met.close()

    asyncio.run(meet())


def test_nobody_waits_for_a_link_that_is_down() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        met.close()
        talk, answers = Talk(), list[bytes | None]()
        met.links[0].open({}, talk)
        met.links[0].ask(b"{}", answers.append)
        await asyncio.sleep(0)
        assert (talk.end, answers) == (links.DOWN, [None])

    asyncio.run(meet())


def test_one_who_cannot_bear_the_end_of_a_link_does_not_keep_it_from_the_others() -> None:
    async def meet() -> None:
        met = Wire(wire.VERSION)
        bad, good = Talk(), Talk()
        bad.ended = lambda reason: json.loads(reason)  # type: ignore[method-assign]
        for talk in (bad, good):
            met.links[0].open({}, talk)
        met.close()
        assert good.end == links.DOWN
        assert not met.sides[0].is_up

    asyncio.run(meet())
