"""Confirms of publishes that go to several shards, against what each shard has said."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.proxy.confirms import Confirms, Sent, Verdict

SHARDS = 3
SHARD = st.integers(0, SHARDS - 1)
HOMES = st.sets(SHARD, max_size=SHARDS)
STEPS = st.one_of(
    st.tuples(st.just("publish"), HOMES, st.booleans()),
    st.tuples(st.just("speak"), SHARD, st.integers(0, 40), st.booleans(), st.booleans()),
    st.tuples(st.just("lose"), SHARD),
)


class Model:
    """What shards were sent and have said, in words of the client."""

    def __init__(self) -> None:
        self.confirms = Confirms()
        self.sent = [Sent() for _ in range(SHARDS)]
        self.unspoken: list[dict[int, int]] = [{} for _ in range(SHARDS)]  # by the number of the shard: ours
        self.last = [0] * SHARDS
        self.undecided: dict[int, set[int]] = {}  # by our number: the shards that have not spoken
        self.refused: set[int] = set()
        self.published = 0

    def publish(self, shard_ids: set[int], wanted: bool) -> None:
        """Send a message to some shards; whoever wants no confirm has no number."""
        self.published += wanted
        number = self.published if wanted else 0
        if not shard_ids:
            return  # the channel itself tells the client
        self.confirms.sent(number, [self.sent[shard_id] for shard_id in sorted(shard_ids)])
        for shard_id in shard_ids:
            self.last[shard_id] += 1
            self.unspoken[shard_id][self.last[shard_id]] = number
        if wanted:
            self.undecided[number] = set(shard_ids)

    def speak(self, shard_id: int, inner: int, multiple: bool, safe: bool) -> None:
        """A shard says what became of one of its messages, or of all up to it."""
        spoken = [each for each in self.unspoken[shard_id] if each == inner or (multiple and each <= inner)]
        verdicts = self.confirms.heard(self.sent[shard_id], inner, multiple, safe)
        self._check(shard_id, spoken, safe, verdicts)

    def lose(self, shard_id: int) -> None:
        """A shard is gone."""
        verdicts = self.confirms.lost(self.sent[shard_id])
        self._check(shard_id, list(self.unspoken[shard_id]), False, verdicts)
        self.last[shard_id] = 0

    def _check(self, shard_id: int, spoken: list[int], safe: bool, verdicts: list[Verdict]) -> None:
        """Every verdict is about publishes of which all shards have spoken, and none is left out."""
        decided = {}
        for number in filter(None, [self.unspoken[shard_id].pop(each) for each in spoken]):
            if not safe:
                self.refused.add(number)
            self.undecided[number].discard(shard_id)
            if not self.undecided[number]:
                decided[number] = number not in self.refused
                del self.undecided[number]
        told: dict[int, bool] = {}
        for number, multiple, good in verdicts:
            about = [each for each in decided if each <= number and each not in told] if multiple else [number]
            assert not multiple or min(self.undecided, default=number) >= number
            told |= dict.fromkeys(about, good)
        assert told == decided
        assert len(self.confirms) == len(self.undecided)
        assert self.confirms.is_idle == (not any(self.unspoken))


@given(st.lists(STEPS, max_size=120))
def test_a_publish_is_confirmed_when_every_shard_has_spoken(steps: list[tuple[object, ...]]) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, str(name))(*arguments)


def test_a_run_of_safe_publishes_is_one_verdict() -> None:
    confirms, shard = Confirms(), Sent()
    for number in range(1, 101):
        confirms.sent(number, [shard])
    assert confirms.heard(shard, 40, False, False) == [(40, False, False)]
    assert confirms.heard(shard, 99, True, True) == [(99, True, True)]
    assert confirms.heard(shard, 100, False, True) == [(100, False, True)]
    assert confirms.is_idle
