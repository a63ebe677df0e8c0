"""Connections and channels: who is there, and sending somebody away."""

from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, keep
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


@pytest.fixture
def client(server: ServerProcess) -> Iterator[pika.BlockingConnection]:
    """A client that the test may send away."""
    parameters = pika.URLParameters(f"{server.url}?heartbeat=0")
    parameters.client_properties = {"connection_name": "guinea pig"}
    connection = pika.BlockingConnection(parameters)
    connection.channel()
    yield connection
    if connection.is_open:
        connection.close()


def test_a_connection_is_found_looked_at_and_closed(console: Console, client: pika.BlockingConnection) -> None:
    with console.open("/connections") as page:
        assert cell(page, "warehouse", "Channels") == "2"
        keep(page, "connections")
        page.locator("tbody tr").filter(has_text="guinea pig").get_by_role("link").click()
        expect(page.get_by_role("region", name="Client", exact=True)).to_contain_text("guinea pig")
        keep(page, "connection")
        page.get_by_role("button", name="Close", exact=True).click()
        page.get_by_role("button", name="Close connection").click()
        expect(page.locator("#toasts")).to_contain_text("asked to go")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        client.process_data_events(PATIENCE_S)


def test_channels_tell_what_they_hold(console: Console) -> None:
    with console.open("/channels?sort=messages_unacknowledged&reverse=true") as page:
        expect(page.locator("tbody tr").first).to_contain_text("(2)")
        assert cell(page, "(2)", "Unacked") == "3"
        keep(page, "channels")


def test_others_do_not_see_whose_connections_there_are(limited: Console) -> None:
    with limited.open("/connections") as page:
        expect(page.locator("td.empty")).to_be_visible()
