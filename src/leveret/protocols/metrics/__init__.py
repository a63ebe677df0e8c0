"""What Prometheus scrapes: RabbitMQ's metrics by their names, and our own.

broker.py   figures of the whole broker: first those under RabbitMQ's names, so that its dashboards find them
facts.py    everything that one scrape of the whole broker tells, looked up once
figure.py   figures: rows of the tables of metrics, for the whole broker or for each of many objects
handler.py  the handler of /metrics: authentication, which metrics, and in which format
objects.py  the objects that have metrics of their own, and which metrics: the families of `/metrics/detailed`
"""
