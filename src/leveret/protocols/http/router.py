"""Which function answers which request: one table.

    Router({("GET", "/queues/{queue}/stats"): stats, ("POST", "/queues/{queue}/messages"): enqueue})

A name in braces stands for one segment, which is not empty; what stood there is in `request.parameters`. A literal
segment goes before a name. HEAD is answered by what answers GET, OPTIONS by the router. With `trailing_slash` one slash
at the end of a path is ignored, as RabbitMQ's management API does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answered, Response

Endpoint = Callable[[Request], Answered]
Routes = Mapping[tuple[str, str], Endpoint]


class _PathNode:
    """What may follow a part of a path."""

    __slots__ = ("literals", "methods", "names", "other")

    def __init__(self) -> None:
        self.literals: dict[str, _PathNode] = {}
        self.other: _PathNode | None = None
        self.methods: dict[str, Endpoint] = {}
        self.names: tuple[str, ...] = ()

    def find(self, segments: tuple[str, ...]) -> tuple[_PathNode, tuple[str, ...]] | None:
        """The end of a path, and what stands in the places of names."""
        ways: list[tuple[int, _PathNode, tuple[str, ...]]] = [(0, self, ())]
        while ways:
            at, node, values = ways.pop()
            if at == len(segments):
                if node.methods:
                    return node, values
                continue
            segment = segments[at]
            if node.other is not None and segment:
                ways.append((at + 1, node.other, (*values, segment)))
            if segment in node.literals:
                ways.append((at + 1, node.literals[segment], values))
        return None


class Router:
    """A handler that finds the function for a request: 404 for a path that is not there, 405 for a method."""

    def __init__(self, routes: Routes, *, trailing_slash: bool = False) -> None:
        """Answer what is in a table; a contradiction in it is an error of ours."""
        self._trailing_slash = trailing_slash
        self._root = _PathNode()
        for (method, template), endpoint in routes.items():
            node, names = self._root, []
            for part in template[1:].split("/"):
                if part.startswith("{"):
                    names.append(part[1:-1])
                    node.other = node = node.other or _PathNode()
                else:
                    node = node.literals.setdefault(part, _PathNode())
            assert method not in node.methods, f"two answers to {method} {template}"
            assert not node.methods or node.names == tuple(names), f"the names in {template} differ between methods"
            node.methods[method] = endpoint
            node.names = tuple(names)

    def __call__(self, request: Request) -> Answered:
        segments = request.segments
        if self._trailing_slash and not segments[-1]:
            segments = segments[:-1]
        found = self._root.find(segments)
        if found is None:
            raise Refusal(404, f"there is nothing at {request.path}: see the documentation for the paths")
        node, values = found
        endpoint = node.methods.get(request.method)
        if endpoint is None:
            if request.method == "HEAD" and "GET" in node.methods:
                endpoint = node.methods["GET"]
            else:
                return self._other(request, node)
        request.parameters = dict(zip(node.names, values, strict=True))
        return endpoint(request)

    def _other(self, request: Request, node: _PathNode) -> Response:
        known = {*node.methods, "OPTIONS"} | ({"HEAD"} if "GET" in node.methods else set())
        allow = ("Allow", ", ".join(sorted(known)))
        if request.method == "OPTIONS":
            return Response(204, headers=(allow,))
        raise Refusal(405, f"{request.method} is not for {request.path}: use {allow[1]}", (allow,))
