"""Several clients of one broker with a journal, doing anything in any order; whatever they do, everything adds up."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.wire.codec import encode
from leveret.wire.frames import METHOD
from tests.fuzz.arena import LOGIN, Arena, Fighter
from tests.fuzz.scripts import ACTIONS, FIGHTERS_MAX, SETUP, WILD, Choices, revive
from tests.protocols.amqp.strategies import ANY_METHOD
from tests.protocols.amqp.wire import frame

CHOICES = st.binary(max_size=12).map(Choices)
WHO = st.integers(0, FIGHTERS_MAX - 1)


class Clients(RuleBasedStateMachine):
    """The rules are what clients, the network and time can do."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.arena = Arena(Path(self.directory.name))

    @initialize()
    def set_up(self) -> None:
        first = self.arena.enter()
        for method in SETUP:
            first.send(frame(METHOD, 1, encode(method)))

    def fighter(self, who: int) -> Fighter:
        return self.arena.fighters[who % len(self.arena.fighters)]

    @precondition(lambda self: len(self.arena.fighters) < FIGHTERS_MAX)
    @rule(steps=st.integers(0, len(LOGIN)))
    def enter(self, steps: int) -> None:
        self.arena.enter(steps)

    @precondition(lambda self: self.arena.fighters)
    @rule(who=WHO)
    def leave(self, who: int) -> None:
        self.arena.leave(self.fighter(who))

    @precondition(lambda self: self.arena.fighters)
    @rule(who=WHO, action=st.sampled_from(ACTIONS), choices=CHOICES)
    def act(self, who: int, action: object, choices: Choices) -> None:
        assert callable(action)
        action(self.fighter(who), choices)

    @precondition(lambda self: self.arena.fighters)
    @rule(who=WHO, action=st.sampled_from(WILD), choices=CHOICES)
    def act_wildly(self, who: int, action: object, choices: Choices) -> None:
        assert callable(action)
        action(self.fighter(who), choices)

    @precondition(lambda self: self.arena.fighters)
    @rule(who=WHO, channel=st.integers(0, 2), method=ANY_METHOD)
    def say_anything(self, who: int, channel: int, method: object) -> None:
        self.fighter(who).send(frame(METHOD, channel, encode(method)))  # type: ignore[arg-type]

    @precondition(lambda self: self.arena.fighters)
    @rule(who=WHO)
    def come_back(self, who: int) -> None:
        revive(self.arena, self.fighter(who))

    @rule(ms=st.sampled_from([1, 10, 1_000, 40_000]))
    def wait(self, ms: int) -> None:
        self.arena.pass_ms(ms)

    @rule(alarm=st.sampled_from([None, "memory"]))
    def change_alarm(self, alarm: str | None) -> None:
        self.arena.hub.set_alarm(alarm)
        self.arena.settle()

    @invariant()
    def everything_adds_up(self) -> None:
        self.arena.check()

    def teardown(self) -> None:
        try:
            self.arena.finish()
        finally:
            self.arena.close()
            self.directory.cleanup()


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=25, stateful_step_count=40)
