"""Alerting: rules on figures of queues, receivers of notifications, and silences.

addresses.py      where notifications may go: each address is checked when it is connected to
book.py           rules, receivers and silences, kept as definitions of the core; used under its lock
delivery.py       notifications on their way: a line for each receiver, tried again after longer and longer waits
engine.py         the state of each alert: pending, then firing, then resolved
fields.py         fields of rules, receivers and silences as a user sent them
figures.py        figures of a queue at work, under the names that rules have for them
notifications.py  notifications: the alerts of one rule for one receiver are one group
payloads.py       a notification in the words of each kind of receiver. docs/alerts.md has the body of a webhook
receivers.py      receivers: the addresses that get notifications, and about which alerts
rules.py          rules as a broker at work has them: which figure of which queues, how much is too much
service.py        alerting at work: looks at the broker now and then, and notifies receivers
silences.py       silences: alerts without notifications for a while, by patterns of rule, virtual host and queue
transports.py     sending one notification, once: by HTTP or by mail
watch.py          a look at every queue of a broker, some in each turn of the loop: figures are held against rules
"""
