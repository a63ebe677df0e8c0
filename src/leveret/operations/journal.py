"""The journal: its segments, and the key that encrypts it."""

from collections.abc import Iterable
from typing import Any

from leveret.core.errors import NotSupported
from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, changes, looks
from leveret.runtime.key_rotation import RotationProgress, as_facts
from leveret.runtime.runtime import Runtime

COUNTED = ("segments", "history", "stream_segments", "bodies", "total", "left")
STATES = ("failed", "running", "done", "none")
"""Of several shards the first of these that one of them is in counts for all."""


def seal(context: OperationContext) -> dict[str, Any]:
    """Close the segment of the journal that is being written, so that it can be archived.

    An empty one is left as it is.
    """
    context.core.count()
    return {"sealed": context.core.journal.begin_segment()}


def rotate_key(context: OperationContext) -> dict[str, Any]:
    """Encrypt everything by the first key of the key file, and say when the others may be removed."""
    return told(as_facts(_runtime(context).housekeeper.rotate_key(context.staged_keys).progress))


def rotation_status(context: OperationContext) -> dict[str, Any]:
    """Show how far the rotation of the key is."""
    rotation = _runtime(context).housekeeper.rotation
    return told(as_facts(RotationProgress("none") if rotation is None else rotation.progress))


def _runtime(context: OperationContext) -> Runtime:
    if context.runtime is None or context.runtime.store is None:
        raise NotSupported("there is no journal here: a broker in memory encrypts nothing")
    return context.runtime


def merged(shards: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The rotations of all shards of a cluster as one: a key is removable if no shard needs it."""
    rows = list(shards)
    state = min((row["state"] for row in rows), key=STATES.index)
    needed = {key: why for row in rows for key, why in row["needed"].items()}
    archived: dict[str, int] = {}
    for row in rows:
        for key, count in row["archived"].items():
            archived[key] = archived.get(key, 0) + count
    return told(
        {
            "state": state,
            "key": next((row["key"] for row in rows if row["key"]), ""),
            **{name: sum(row[name] for row in rows) for name in COUNTED},
            "needed": needed,
            "archived": archived,
            "removable": sorted({key for row in rows for key in row["removable"]} - needed.keys()),
            "problem": next((row["problem"] for row in rows if row["problem"]), ""),
        }
    )


def told(facts: dict[str, Any]) -> dict[str, Any]:
    """The same with a sentence that says what to do."""
    return {**facts, "summary": _summary(facts)}


def _summary(facts: dict[str, Any]) -> str:
    key, removable, needed = facts["key"], facts["removable"], facts["needed"]
    if facts["state"] == "none":
        return "no rotation was begun since the start: `leveret journal rotate-key` begins one"
    if facts["state"] == "running":
        return f"{facts['left']} of {facts['total']} objects are left to be encrypted by key {key}"
    if facts["state"] == "failed":
        return f"the rotation has stopped: {facts['problem']}; then begin it again. No key may be removed yet"
    lines = [f"everything is encrypted by key {key}"]
    lines += [f"key {each} is still needed by {why}: rotate again when they are gone" for each, why in needed.items()]
    lines += [f"remove key {each} from the key file" for each in removable]
    lines += [
        f"{count} segments in the archive need key {each}: keep it for those who read them"
        for each, count in facts["archived"].items()
        if each != key
    ]
    return "\n".join(lines)


OPERATIONS = (
    *changes("shards", ADMINISTERED, {"journal.seal": seal, "journal.rotate-key": rotate_key}),
    *looks("shards", ADMINISTERED, {"journal.rotation-status": rotation_status}),
)
