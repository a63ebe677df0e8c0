"""What operators see of a running broker: logs, metrics, traces, the audit log and alerts.

alerting/         watching a broker at work: rules on figures of queues, receivers and silences
alert_rules.py    the rules of alerts, as data
audit.py          the audit log: which user changed what, and what was refused
chain.py          lines that are chained: each has its number and the SHA-256 of the line before it
exposition.py     the text that Prometheus reads: families of samples, in its own format or in that of OpenMetrics
forwarding.py     rows of the audit log on their way to a collector
logs.py           structured logs: one line for each event, for people or for programs
otlp.py           spans to a collector by OTLP over HTTP
otlp_wire.py      the bytes of a request with spans, as OTLP has them in Protocol Buffers
propagation.py    the trace contexts of the application that we run in, if it has OpenTelemetry
rounds.py         repeated looks at a broker; after a look that fails there is another one
row_file.py       rows that the next process reads: one JSON object in a line, in a file of bounded size
spans.py          spans on their way to a collector: a bounded queue and a thread that empties it
statistics.py     what queues count, for the parts that judge, show or export it
trace_context.py  the trace that a message belongs to, as W3C and AWS write it
tracing.py        the life of a traced message as spans, in the words of OpenTelemetry's conventions for messaging
"""
