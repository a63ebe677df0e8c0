"""Where each endpoint is answered on a node. What is not in a table below is answered here, by the copy of all
definitions, which every change reaches on every node before it is answered.

    OF_QUEUE    by the shard of the queue in the path         IN_SHARDS   by all shards, or by those concerned
    OF_NODE     by the node in the path                       ON_NODES    by all nodes
    SETTLED     here, once it is known whether the queue in the path has just gone by itself

`INSIDE` is what shards are asked by nodes, `BETWEEN` what nodes are asked by each other.
"""

from leveret.protocols.management.cluster import checks, clients, history, messages, queues, sums
from leveret.protocols.management.routes import CHECKS, LEADERS, ROUTES, Endpoint, Table

Places = dict[tuple[str, str], Endpoint]

OF_QUEUE: Places = {
    ("GET", "/queues/{vhost}/{queue}"): queues.look,
    ("DELETE", "/queues/{vhost}/{queue}"): queues.delete,
    ("GET", "/queues/{vhost}/{queue}/leases"): queues.ask,
    ("DELETE", "/queues/{vhost}/{queue}/contents"): queues.ask_unlocked,
    ("POST", "/queues/{vhost}/{queue}/get"): queues.ask_unlocked,
    ("POST", "/queues/{vhost}/{queue}/move"): queues.move,
    ("GET", "/aliveness-test/{vhost}"): messages.aliveness,
}
IN_SHARDS: Places = {
    ("GET", "/queues"): queues.list_all,
    ("GET", "/queues/detailed"): queues.list_all,
    ("GET", "/queues/{vhost}"): queues.list_vhost,
    ("GET", "/consumers"): clients.list_consumers,
    ("GET", "/consumers/{vhost}"): clients.list_consumers,
    ("POST", "/exchanges/{vhost}/{exchange}/publish"): messages.publish,
    ("GET", "/dead-letters/{vhost}"): messages.list_dead_letters,
    ("GET", "/scheduled/{vhost}"): messages.list_scheduled,
}
OF_NODE: Places = {
    ("GET", "/nodes/{node}"): clients.look_at_node,
    ("GET", "/nodes/{node}/memory"): clients.ask_node,
    ("GET", "/nodes/{node}/storage"): clients.ask_node,
    ("POST", "/nodes/{node}/drain"): clients.ask_node,
    ("GET", "/healthchecks/node/{node}"): clients.ask_node,
    ("POST", "/vhosts/{vhost}/start/{node}"): clients.ask_node,
}
ON_NODES: Places = {
    ("GET", "/overview"): sums.look_at_all,
    ("GET", "/vhosts"): sums.list_vhosts,
    ("GET", "/vhosts/{vhost}"): sums.look_at_vhost,
    ("GET", "/nodes"): clients.list_nodes,
    ("GET", "/connections"): clients.list_of_nodes,
    ("GET", "/connections/{connection}"): clients.first_found,
    ("DELETE", "/connections/{connection}"): clients.first_found,
    ("GET", "/connections/{connection}/channels"): clients.first_found,
    ("GET", "/connections/username/{user}"): clients.list_of_nodes,
    ("DELETE", "/connections/username/{user}"): clients.all_do,
    ("GET", "/vhosts/{vhost}/connections"): clients.list_of_nodes,
    ("GET", "/channels"): clients.list_of_nodes,
    ("GET", "/channels/{channel}"): clients.look_at_channel,
    ("GET", "/vhosts/{vhost}/channels"): clients.list_of_nodes,
    ("GET", "/alerts"): history.list_alerts,
    ("GET", "/alerts/history"): history.list_events,
    ("GET", "/alerts/receivers"): history.list_receivers,
    ("GET", "/reports"): history.list_reports,
    ("GET", "/reports/{report}"): history.look_at_report,
    ("GET", "/reports/{report}/page"): history.look_at_report,
    ("GET", f"{CHECKS}/alarms"): checks.alarms,
    ("GET", f"{CHECKS}/virtual-hosts"): checks.virtual_hosts,
    ("GET", f"{CHECKS}/is-in-service"): checks.in_service,
    ("GET", f"{CHECKS}/ready-to-serve-clients"): checks.ready,
    ("GET", f"{LEADERS}/all-vhosts"): checks.leaders,
    ("GET", f"{LEADERS}/all-vhosts/pattern/{{pattern}}"): checks.leaders,
    ("GET", f"{LEADERS}/vhost/{{vhost}}"): checks.leaders,
    ("GET", f"{LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}"): checks.leaders,
    ("GET", f"{CHECKS}/node-is-quorum-critical"): checks.quorum_critical,
}
SETTLED: Places = {
    key: queues.settled(ROUTES[key][1], parameter)
    for key, parameter in {
        ("PUT", "/queues/{vhost}/{queue}"): "queue",
        ("GET", "/queues/{vhost}/{queue}/bindings"): "queue",
        ("POST", "/queues/{vhost}/{queue}/actions"): "queue",
        ("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}"): "destination",
        ("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}"): "destination",
    }.items()
}
PLACES: Places = {**OF_QUEUE, **IN_SHARDS, **OF_NODE, **ON_NODES, **SETTLED}

CLUSTERED: Table = {key: (operation, PLACES.get(key, ask)) for key, (operation, ask) in ROUTES.items()}
"""Every endpoint, for clients of a node."""
BETWEEN: Table = ROUTES
INSIDE: Table = {
    **{key: ROUTES[key] for key in (*OF_QUEUE, *IN_SHARDS)},
    ("POST", queues.ROWS): ("queues.list", queues.rows),
    ("POST", "/dead-letters/{vhost}"): ("dead-letters.list", messages.count_dead_letters),
}
