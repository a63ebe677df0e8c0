"""Reports on queues: tables, a page with plots, and a few lines for a terminal, from the events of a broker.

comparison.py    two periods of a history beside each other
depth.py         how full queues were, how long nothing was taken from them, and how old messages became
findings.py      what a page or a terminal tells of a report: the rows of its tables, no more than can be read
job.py           the job: read events, make tables, write them as Parquet with a page beside them
outlook.py       where depth and storage are heading and how many consumers are needed, by the trend of the periods
page.py          the report as one HTML file: nothing is loaded from anywhere, and nothing in it runs
period.py        the time that a report covers, and its periods
sections.py      the plots of a report, each with the sentence above it
service.py       how well messages were served: times, repeated deliveries
streams.py       streams of a running broker: how many records they hold, and how far each consumer group is behind
svg.py           plots as SVG inside of a page: lines over time, stacked bars over time, ranges of percentiles
tables.py        the tables of a report, in the order in which they are made
traffic.py       how messages ended, refused publishes, streams
"""

from leveret.spark.report.job import Report, build
from leveret.spark.report.service import Objective

__all__ = ["Objective", "Report", "build"]
