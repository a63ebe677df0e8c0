"""Names in their order, whatever comes and goes between two looks."""

from hypothesis import given
from hypothesis import strategies as st

from leveret.core.names import CHANGES_MAX, SortedNames
from leveret.core.topology import Vhost

NAMES = st.text("ab0.é", min_size=1, max_size=4)


@given(st.lists(st.one_of(NAMES, st.none())), NAMES | st.just(""), st.text("ab", max_size=2))
def test_pages_are_those_of_a_sorted_list(steps: list[str | None], last: str, prefix: str) -> None:
    """A name is added, or removed when it is there; None is a look."""
    named: dict[str, None] = {}
    names = SortedNames(named)
    for name in [*steps, None]:
        if name is None:
            assert names.all() == sorted(named)
        elif name in named:
            del named[name]
            names.remove(name)
        else:
            named[name] = None
            names.add(name)
    wanted = [name for name in sorted(named) if name > last and name.startswith(prefix)]
    assert list(names.after(last, prefix)) == wanted


def test_very_many_changes_are_sorted_at_the_next_look() -> None:
    named = {str(number): None for number in range(10)}
    names = SortedNames(named)
    names.all()
    for number in range(10, 20 + CHANGES_MAX):
        named[str(number)] = None
        names.add(str(number))
    assert names._sorted is None
    assert names.all() == sorted(named)


def test_the_queues_of_a_virtual_host() -> None:
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    virtual_host = Vhost()
    queues = [Named(name) for name in ("b", "a", "c")]
    assert virtual_host.queue_names.all() == []
    for queue in [*queues, Named("a")]:
        virtual_host.add_queue(queue)
    assert virtual_host.queue_names.all() == ["a", "b", "c"]
    virtual_host.remove_queue(queues[0])
    assert virtual_host.queue_names.all() == ["a", "c"]
