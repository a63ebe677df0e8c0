"""The topic exchange: binding keys are patterns of dot-separated words, kept in a trie.

    *   exactly one word, which may be empty: "a..b" has three words
    #   zero or more words; the key "" has zero words

          root
         /    \\
     orders    #  -> audit            orders.*  orders.new  #
      /   \\
     *    new
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from leveret.core.exchanges.base import Arguments, Binding, Exchange


class _Node:
    """One word of a pattern, after all the words above it."""

    __slots__ = ("bindings", "children", "repeats")

    def __init__(self, repeats: bool = False) -> None:
        """`repeats` marks a `#`, which may take any further word."""
        self.repeats = repeats
        self.children: dict[str, _Node] = {}
        self.bindings: dict[Binding, None] = {}


def words_of(key: str) -> list[str]:
    """The words of a routing or binding key."""
    return key.split(".") if key else []


class TopicExchange(Exchange):
    """Follows all patterns at once, word by word: work is bounded by words x nodes, however many `#` there are."""

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._root = _Node()

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """The destinations whose pattern matches the key."""
        reached = _with_empty_repeats([self._root])
        for word in words_of(routing_key):
            reached = _with_empty_repeats(_after(reached, word))
        found = [binding for node in reached for binding in node.bindings]
        found.sort(key=attrgetter("order"))
        return [binding.destination for binding in found]

    def added(self, binding: Binding) -> None:
        """Grow the trie by a pattern."""
        node = self._root
        for word in words_of(binding.key):
            if word not in node.children:
                node.children[word] = _Node(repeats=word == "#")
            node = node.children[word]
        node.bindings[binding] = None

    def removed(self, binding: Binding) -> None:
        """Prune the branch that only this pattern needed."""
        path = [self._root]
        words = words_of(binding.key)
        for word in words:
            path.append(path[-1].children[word])
        del path[-1].bindings[binding]
        for parent, word, node in zip(path[-2::-1], reversed(words), path[:0:-1], strict=True):
            if node.bindings or node.children:
                break
            del parent.children[word]


def _after(nodes: Iterable[_Node], word: str) -> Iterable[_Node]:
    """The nodes that one more word leads to."""
    for node in nodes:
        if node.repeats:
            yield node
        if (child := node.children.get(word)) is not None:
            yield child
        if (child := node.children.get("*")) is not None:
            yield child


def _with_empty_repeats(nodes: Iterable[_Node]) -> set[_Node]:
    """The nodes, and each `#` below them that takes no word at all."""
    reached = set()
    for node in nodes:
        step: _Node | None = node
        while step is not None and step not in reached:
            reached.add(step)
            step = step.children.get("#")
    return reached
