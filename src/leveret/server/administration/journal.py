"""Verbs on the journal."""

from typing import Any

from leveret.server.administration.site import Site, Verb


def seal(site: Site) -> dict[str, Any]:
    """Close the segment that is being written, so that it can be archived; an empty one is left as it is."""
    return {"sealed": site.core.journal.begin_segment()}


VERBS: dict[str, Verb] = {"journal.seal": seal}
