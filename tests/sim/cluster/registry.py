"""An etcd, as far as nodes can tell: keys with revisions, leases that end by its own clock, watches that are late."""

from collections.abc import Callable
from typing import Any

from leveret.cluster.coordination.etcd import Done, KeyEvent, KeyRange, KeyValue
from leveret.core.errors import NotFound
from tests.sim.cluster.loop import Loop, Process

TIMEOUT_MS = 1_000
LOST = 0.02
SKEW = (1.0, 1.1, 1.5)
"""How much later than asked for a lease ends."""


class Registry:
    """All keys; every request is a whole."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.up = True
        self.revision = 1
        self.lost_share = LOST
        self._keys: dict[str, KeyValue] = {}
        self._leases: dict[int, tuple[int, int]] = {}
        self._watches: list[Watch] = []

    # Requests, as they are done here

    def grant(self, ttl_ms: int) -> int:
        """A new lease."""
        self.revision += 1
        lease = self.revision << 8
        self._leases[lease] = (ttl_ms, 0)
        self.keep_alive(lease)
        return lease

    def keep_alive(self, lease: int) -> bool:
        """Renew a lease."""
        if lease not in self._leases:
            return False
        ttl_ms, renewals = self._leases[lease]
        self._leases[lease] = (ttl_ms, renewals + 1)
        skewed_ms = ttl_ms * self.loop.random.choice(SKEW)
        self.loop.after(skewed_ms, lambda: self._expire(lease, renewals + 1))
        return True

    def _expire(self, lease: int, renewals: int) -> None:
        if self._leases.get(lease, (0, 0))[1] != renewals:
            return
        if not self.up:  # nobody leads: nothing ends
            self.loop.after(TIMEOUT_MS, lambda: self._expire(lease, renewals))
            return
        self.revoke(lease)

    def revoke(self, lease: int) -> None:
        """End a lease, and its keys."""
        if self._leases.pop(lease, None) is not None:
            self._change({key: None for key, found in self._keys.items() if found.lease == lease})

    def create(self, key: str, value: str, lease: int, hint: str = "") -> Done:
        """Write a key that is not there."""
        if key in self._keys:
            return Done(False, self.revision)
        return self._change({key: self._value(key, value, lease), **({hint: None} if hint in self._keys else {})})

    def replace(self, key: str, created: int, value: str, lease: int) -> Done:
        """Write a key that is there."""
        if key not in self._keys or self._keys[key].created != created:
            return Done(False, self.revision)
        return self._change({key: self._value(key, value, lease)._replace(created=created)})

    def remove(self, key: str, created: int, hint: tuple[str, str, int] | None) -> Done:
        """Remove a key that is there, with a hint in its place."""
        if key not in self._keys or self._keys[key].created != created:
            return Done(False, self.revision)
        return self._change({**({hint[0]: self._value(*hint)} if hint else {}), key: None})

    def _value(self, key: str, value: str, lease: int) -> KeyValue:
        if lease not in self._leases:
            raise NotFound("the lease is gone")
        return KeyValue(key, value, self.revision + 1, self.revision + 1, lease)

    def _change(self, changes: dict[str, KeyValue | None]) -> Done:
        self.revision += 1
        for key, found in changes.items():
            if found is None:
                del self._keys[key]
            else:
                self._keys[key] = found
        events = [KeyEvent(key, self.revision, found) for key, found in changes.items()]
        for watch in self._watches:
            watch.tell(events)
        return Done(True, self.revision)

    # What a node sends and hears

    def ask(self, process: Process, request: Callable[[], Any]) -> Any:
        """The answer to a request, for a fiber; None when it is lost, whatever became of the request."""

        def begin(wake: Callable[[Any], None]) -> None:
            random = self.loop.random
            if not self.up or random.random() < self.lost_share:
                self.loop.after(TIMEOUT_MS, lambda: wake(None))
                if self.up and random.random() < 0.5:
                    self.loop.after(random.randrange(1, TIMEOUT_MS), lambda: self._done(request))
                return
            self.loop.after(self.loop.delay_ms(), lambda: self._answer(self._done(request), wake))

        return process.wait(begin)

    def _answer(self, answer: Any, wake: Callable[[Any], None]) -> None:
        self.loop.after(self.loop.delay_ms(), lambda: wake(answer))

    def _done(self, request: Callable[[], Any]) -> Any:
        try:
            return request()
        except NotFound:
            return None

    def watch(
        self, process: Process, reset: Callable[[KeyRange], None], apply: Callable[[list[KeyEvent]], None]
    ) -> bool:
        """Tell a node what there is now, and whatever happens from now on."""
        watch = Watch(process, apply)
        found = KeyRange(self.revision, list(self._keys.values()))
        process.after(watch.due_ms(), lambda: reset(found))
        self._watches = [each for each in self._watches if each.process is not process and each.process.alive]
        self._watches.append(watch)
        return True


class Watch:
    """What one node is told, in order and late."""

    def __init__(self, process: Process, apply: Callable[[list[KeyEvent]], None]) -> None:
        self.process = process
        self._apply = apply
        self._last_ms = 0

    def due_ms(self) -> int:
        """How long the next news takes: never less than those before it."""
        now_ms = self.process.loop.now_ms
        self._last_ms = max(self._last_ms, now_ms + self.process.loop.delay_ms())
        return self._last_ms - now_ms

    def tell(self, events: list[KeyEvent]) -> None:
        """Something happened."""
        self.process.after(self.due_ms(), lambda: self._apply(events))
