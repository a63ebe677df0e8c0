"""Pictures of a report on a generated day of 120 queues, with streams of a real server beside it.

    python -m tests.spark.report_shots

writes docs/screenshots/report.png, and the whole page at every width, light, dark and on paper, into build/screenshots.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.client.broker import RemoteBroker
from leveret.spark.generate import TrafficVolume, events
from leveret.spark.messages import DEATHS_SPARK
from leveret.spark.report.job import build_from
from leveret.spark.report.streams import lags
from leveret.spark.report.tables import Sources
from leveret.spark.session import session
from tests.protocols.console.browser import SCREENSHOTS, launch
from tests.protocols.console.shots import BYTES_MAX, FOLDER
from tests.server_process import ServerProcess

DAY = TrafficVolume(60_000, queues=120, failures=0.05)
DAY_BEFORE = TrafficVolume(40_000, queues=120, failures=0.02, seed=2)
TENANTS = 8
STREAMS = {"clicks": {"billing": 600, "search": 2_500}, "orders.changes": {"warehouse": 2_400}, "audit": {}}
RECORDS = 5_000
SIZES = {"1320": (1320, 900), "1920": (1920, 1080), "phone": (390, 844)}


def fill(broker: RemoteBroker) -> None:
    """Streams whose groups are more or less behind."""
    for name, groups in STREAMS.items():
        stream = broker.stream(name, partitions=2)
        for _ in range(RECORDS // 100):
            stream.send_many([b"record"] * 100)
        for group, read in groups.items():
            found = stream.group(group)
            found.commit("worker", found.join("worker").generation, dict.fromkeys(range(2), read))


def tags(made: DataFrame) -> DataFrame:
    """What the messages of a day would say about themselves: their tenants, and where dead letters came from."""
    origin = F.regexp_replace("queue", r"\.dead$", "")
    none = F.lit(None).cast("bigint"), F.lit(None).cast("timestamp")
    death = F.struct(origin, F.lit("rejected"), F.lit(""), *none)
    dead = F.when(F.col("queue").endswith(".dead"), F.array(death))
    tenant = F.format_string("tenant-%d", F.floor(F.pow(DAY.chance("tenant", "seq"), 3) * TENANTS))
    known = made.where("event = 'published'")
    return known.select(
        "vhost", "queue", "queue_id", "seq", dead.cast(DEATHS_SPARK).alias("x_death"), tenant.alias("tenant")
    )


def sources(spark: SparkSession, day: TrafficVolume) -> Sources:
    """A generated day."""
    made = events(spark, day)
    return Sources(made, tags(made))


def take(page_path: Path) -> None:
    """Take the pictures of a page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for name, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                with browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme) as context:
                    page = context.new_page()
                    page.goto(page_path.as_uri())
                    page.screenshot(path=SCREENSHOTS / f"report-{name}-{scheme}.png", full_page=True)
                    if (name, scheme) == ("1320", "light"):
                        data = page.screenshot(path=FOLDER / "report.png")
                        page.pdf(path=SCREENSHOTS / "report.pdf", format="A4")
        browser.close()
    if len(data) > BYTES_MAX:
        raise SystemExit(f"the picture has {len(data)} bytes, the limit is {BYTES_MAX}: show less on it")


def main() -> int:
    """Make the report and its pictures."""
    out = SCREENSHOTS.parent / "report"
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder)) as server, server.client() as broker:
        fill(broker)
        streams = lags(server.http_url)
    spark = session("local[2]", **{"spark.driver.memory": "2g"})
    report = build_from(spark, sources(spark, DAY), out, earlier=sources(spark, DAY_BEFORE), streams=streams)
    spark.stop()
    take(Path(report.page).resolve())
    print(report.page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
