"""Logins of browsers: good on every node, and over on every node, also on one that could not be told."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from leveret.clock import SystemClock
from leveret.cluster.forwarding import logins
from leveret.cluster.forwarding.handler import Api
from leveret.cluster.forwarding.logins import EDGE, Logouts, note
from leveret.core.definition_log import Kind
from leveret.core.errors import Unreachable
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.sessions import AGE_MS_MAX, BrowserSession, Sessions
from leveret.security.cluster_secret import CONSOLE, cluster_keys
from leveret.security.identity import Identity
from tests.cluster.managed_cluster import ManagedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[ManagedCluster]:
    made = ManagedCluster("a", "b")
    made.start_threads()
    yield made
    made.close()


class Browser:
    """One that has logged in by node a."""

    def __init__(self, cluster: ManagedCluster) -> None:
        self._cluster = cluster
        login = {"user": "guest", "password": "guest"}
        begun = cluster.ask("a", "POST /console/session", login, X_CSRF_Token="")
        self._token = begun.json["token"]
        self.cookie = begun.headers["set-cookie"].split(";")[0].partition("=")[2]

    def ask(self, node: str, line: str = "GET /console/session") -> Any:
        name = f"leveret_session_{self._cluster.at(node).http_port}"
        return self._cluster.ask(node, line, Cookie=f"{name}={self.cookie}", X_CSRF_Token=self._token)

    def is_known(self, node: str) -> bool:
        return self.ask(node).json["user"] is not None


def deafen(cluster: ManagedCluster, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node not hear what others tell it directly."""

    def refuse(request: Request) -> Response:
        raise Unreachable("it is cut off")

    monkeypatch.setitem(cluster.members[node].node.edges, EDGE, Api(refuse, problem))


def test_a_browser_is_logged_in_and_out_on_every_node(cluster: ManagedCluster) -> None:
    browser = Browser(cluster)
    assert browser.ask("b").json["cluster"] == cluster.members["b"].node.cluster
    assert browser.ask("b", "DELETE /console/session").status == 204
    assert not browser.is_known("a")


def test_a_node_that_could_not_be_told_knows_with_the_definitions(
    cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = Browser(cluster)
    deafen(cluster, "b", monkeypatch)
    assert browser.is_known("b")
    browser.ask("a", "DELETE /console/session")
    assert not browser.is_known("b")


def test_a_node_that_starts_knows_who_has_logged_out(cluster: ManagedCluster) -> None:
    browser, other, member = Browser(cluster), Browser(cluster), cluster.managed("b")
    browser.ask("a", "DELETE /console/session")
    sessions = Sessions(member.proxies.access.users, SystemClock(), cluster_keys(member.options, CONSOLE))
    Logouts(member.node, sessions, member.web.login)
    member.logouts = Logouts(member.node, member.web.sessions, member.web.login)

    def found(each: Browser) -> BrowserSession | None:
        headers = {b"host": b"b:80", b"cookie": f"leveret_session_80={each.cookie}".encode()}
        return sessions.find(Request("GET", b"/", headers, logins.NO_PEER))

    assert (found(browser), found(other) is None) == (None, False)


def test_a_logout_is_noted_when_the_store_answers_again(
    cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, failures = cluster.members["a"].node, [Unreachable("the store is away")] * 2
    decide = node.decide

    async def decided(verb: Any) -> Any:
        if failures:
            raise failures.pop()
        return await decide(verb)

    monkeypatch.setattr(node, "decide", decided)
    monkeypatch.setattr(logins, "RETRY_S", 0.01)
    browser = Browser(cluster)
    deafen(cluster, "b", monkeypatch)
    browser.ask("a", "DELETE /console/session")
    cluster.wait_until(lambda: not browser.is_known("b"))


def test_logouts_are_forgotten_when_their_cookies_are_too_old(
    cluster: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "ENDED_PER_USER_MAX", 2)
    member = cluster.managed("a")
    now_ms = SystemClock().now_ms()
    ages_ms = [AGE_MS_MAX, 3, 2, 1]
    for age_ms in ages_ms:
        session = BrowserSession(Identity("ada"), "", str(age_ms), now_ms - age_ms, now_ms)
        cluster.run(member.node.decide(partial(note, session=session)))
    kept = [row["name"] for row in member.proxies.broker.runtime.core.catalog.of(Kind.LOGOUT) if row["user"] == "ada"]
    assert kept == ["2", "1"]
