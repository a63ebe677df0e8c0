"""Every endpoint: its operation, and the function that answers. docs/management.md has the same as a table."""

from typing import NamedTuple

from leveret.protocols.http.cluster import PLAIN, InCluster
from leveret.protocols.management import (
    alerts,
    bindings,
    clients,
    dead_letters,
    definitions,
    exchanges,
    health,
    merging,
    messages,
    overview,
    policies,
    queues,
    reports,
    users,
    vhosts,
)
from leveret.protocols.management.call import Endpoint

Row = tuple[str, Endpoint] | tuple[str, Endpoint, InCluster]
Table = dict[tuple[str, str], Row]
"""By method and path: the fields of a route."""


class Route(NamedTuple):
    """An endpoint: its operation in the registry, and what it adds in a cluster."""

    operation: str
    ask: Endpoint
    cluster: InCluster = PLAIN


BROKER: Table = {
    ("GET", "/overview"): ("overview.look", overview.look, merging.OVERVIEW),
    ("GET", "/whoami"): ("users.who", users.who),
    ("GET", "/auth"): ("auth.look", overview.auth),
    ("GET", "/auth/hash_password/{password}"): ("users.hash-password", users.hash_password),
    ("POST", "/auth/hash_password"): ("users.hash-password", users.hash_password),
    ("GET", "/extensions"): ("extensions.list", overview.extensions),
    ("GET", "/cluster-name"): ("cluster-name.look", policies.look_at_cluster_name),
    ("PUT", "/cluster-name"): ("cluster-name.set", policies.put_cluster_name),
    ("GET", "/nodes"): ("nodes.list", overview.list_nodes, merging.NODES),
    ("GET", "/nodes/{node}"): ("nodes.look", overview.look_at_node, merging.NODE),
    ("GET", "/nodes/{node}/memory"): ("nodes.look", overview.look_at_memory),
    ("GET", "/nodes/{node}/storage"): ("nodes.look", overview.look_at_storage),
    ("POST", "/nodes/{node}/drain"): ("cluster.drain", overview.drain),
    ("GET", "/cluster"): ("cluster.status", overview.cluster_status),
    ("GET", "/reports"): ("reports.list", reports.list_all, merging.REPORTS),
    ("GET", "/reports/{report}"): ("reports.look", reports.look, merging.REPORT),
    ("GET", "/reports/{report}/page"): ("reports.look", reports.page, merging.REPORT),
    ("GET", "/definitions"): ("definitions.export", definitions.give_out),
    ("POST", "/definitions"): ("definitions.import", definitions.take_in),
    ("GET", "/definitions/{vhost}"): ("definitions.export", definitions.give_out),
    ("POST", "/definitions/{vhost}"): ("definitions.import", definitions.take_in),
    ("GET", "/feature-flags"): ("feature-flags.list", overview.list_flags),
    ("PUT", "/feature-flags/{name}/enable"): ("feature-flags.enable", overview.enable),
    ("GET", "/deprecated-features"): ("deprecated-features.list", overview.list_deprecated),
    ("GET", "/deprecated-features/used"): ("deprecated-features.list", overview.list_deprecated_used),
    ("POST", "/rebalance/queues"): ("cluster.rebalance", overview.rebalance),
}
CLIENTS: Table = {
    ("GET", "/connections"): ("connections.list", clients.list_connections, merging.LIST),
    ("GET", "/connections/{connection}"): ("connections.look", clients.look_at_connection, merging.FIRST),
    ("DELETE", "/connections/{connection}"): ("connections.close", clients.close, merging.FIRST),
    ("GET", "/connections/{connection}/channels"): (
        "connections.look",
        clients.list_connection_channels,
        merging.FIRST,
    ),
    ("GET", "/connections/username/{user}"): ("connections.list-user", clients.list_connections, merging.LIST),
    ("DELETE", "/connections/username/{user}"): ("connections.close-user", clients.close_user, merging.OWN),
    ("GET", "/vhosts/{vhost}/connections"): ("connections.list-vhost", clients.list_connections, merging.LIST),
    ("GET", "/channels"): ("channels.list", clients.list_channels, merging.LIST),
    ("GET", "/channels/{channel}"): ("channels.look", clients.look_at_channel, merging.CHANNEL),
    ("GET", "/vhosts/{vhost}/channels"): ("channels.list-vhost", clients.list_channels, merging.LIST),
    ("GET", "/consumers"): ("consumers.list", clients.list_consumers, merging.CONSUMERS),
    ("GET", "/consumers/{vhost}"): ("consumers.list", clients.list_consumers, merging.CONSUMERS),
}
TOPOLOGY: Table = {
    ("GET", "/exchanges"): ("exchanges.list", exchanges.list_all),
    ("GET", "/exchanges/{vhost}"): ("exchanges.list", exchanges.list_all),
    ("GET", "/exchanges/{vhost}/{exchange}"): ("exchanges.look", exchanges.look),
    ("PUT", "/exchanges/{vhost}/{exchange}"): ("exchange.declare", exchanges.declare),
    ("DELETE", "/exchanges/{vhost}/{exchange}"): ("exchange.delete", exchanges.delete),
    ("GET", "/exchanges/{vhost}/{exchange}/bindings/source"): ("bindings.list", bindings.list_from),
    ("GET", "/exchanges/{vhost}/{exchange}/bindings/destination"): ("bindings.list", bindings.list_to),
    ("POST", "/exchanges/{vhost}/{exchange}/publish"): ("basic.publish", messages.publish, merging.PUBLISHED),
    ("GET", "/exchanges/{vhost}/{exchange}/probe"): ("exchanges.probe", exchanges.probe_route),
    ("GET", "/queues"): ("queues.list", queues.list_all),
    ("GET", "/queues/detailed"): ("queues.list", queues.list_all),
    ("GET", "/queues/{vhost}"): ("queues.list", queues.list_all),
    ("GET", "/queues/{vhost}/{queue}"): ("queues.look", queues.look, merging.QUEUE),
    ("PUT", "/queues/{vhost}/{queue}"): ("queue.declare", queues.declare),
    ("DELETE", "/queues/{vhost}/{queue}"): ("queue.delete", queues.delete, merging.DELETED),
    ("GET", "/queues/{vhost}/{queue}/bindings"): ("bindings.list", queues.list_bindings),
    ("GET", "/queues/{vhost}/{queue}/leases"): ("queue.browse", messages.list_leases),
    ("DELETE", "/queues/{vhost}/{queue}/contents"): ("queue.purge", queues.purge),
    ("POST", "/queues/{vhost}/{queue}/actions"): ("queues.act", queues.act),
    ("POST", "/queues/{vhost}/{queue}/get"): ("queue.get", messages.get),
    ("POST", "/queues/{vhost}/{queue}/move"): ("queue.redrive", messages.move),
    ("GET", "/dead-letters/{vhost}"): ("dead-letters.list", dead_letters.list_vhost, merging.DEAD_LETTERS),
    ("GET", "/scheduled/{vhost}"): ("scheduled.list", messages.list_scheduled, merging.SCHEDULED),
    ("GET", "/routing/{vhost}"): ("routing.look", exchanges.look_at_routing),
    ("GET", "/bindings"): ("bindings.list", bindings.list_all),
    ("GET", "/bindings/{vhost}"): ("bindings.list", bindings.list_all),
    ("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}"): ("bindings.list", bindings.list_between),
    ("POST", "/bindings/{vhost}/e/{source}/{kind}/{destination}"): ("queue.bind", bindings.bind),
    ("GET", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}"): ("bindings.look", bindings.look),
    ("DELETE", "/bindings/{vhost}/e/{source}/{kind}/{destination}/{properties}"): ("queue.unbind", bindings.unbind),
}
ACCESS: Table = {
    ("GET", "/vhosts"): ("vhosts.list", vhosts.list_all, merging.VHOSTS),
    ("GET", "/vhosts/{vhost}"): ("vhosts.look", vhosts.look, merging.VHOST),
    ("PUT", "/vhosts/{vhost}"): ("vhosts.add", vhosts.put),
    ("DELETE", "/vhosts/{vhost}"): ("vhosts.delete", vhosts.delete),
    ("POST", "/vhosts/{vhost}/start/{node}"): ("vhosts.start", vhosts.start),
    ("GET", "/vhosts/{vhost}/permissions"): ("permissions.list", users.list_permissions),
    ("GET", "/vhosts/{vhost}/topic-permissions"): ("topic-permissions.list", users.list_topics),
    ("GET", "/users"): ("users.list", users.list_all),
    ("GET", "/users/without-permissions"): ("users.list", users.list_without_permissions),
    ("POST", "/users/bulk-delete"): ("users.delete", users.delete_some),
    ("GET", "/users/{user}"): ("users.list", users.look),
    ("PUT", "/users/{user}"): ("users.put", users.put),
    ("DELETE", "/users/{user}"): ("users.delete", users.delete),
    ("GET", "/users/{user}/permissions"): ("permissions.list", users.list_permissions),
    ("GET", "/users/{user}/topic-permissions"): ("topic-permissions.list", users.list_topics),
    ("GET", "/permissions"): ("permissions.list", users.list_permissions),
    ("GET", "/permissions/{vhost}/{user}"): ("permissions.list", users.look_at_permission),
    ("PUT", "/permissions/{vhost}/{user}"): ("permissions.set", users.put_permission),
    ("DELETE", "/permissions/{vhost}/{user}"): ("permissions.clear", users.delete_permission),
    ("GET", "/topic-permissions"): ("topic-permissions.list", users.list_topics),
    ("GET", "/topic-permissions/{vhost}/{user}"): ("topic-permissions.list", users.look_at_topics),
    ("PUT", "/topic-permissions/{vhost}/{user}"): ("topic-permissions.set", users.put_topic),
    ("DELETE", "/topic-permissions/{vhost}/{user}"): ("topic-permissions.clear", users.delete_topics),
    ("GET", "/topic-permissions/{vhost}/{user}/{exchange}"): ("topic-permissions.list", users.look_at_topics),
    ("DELETE", "/topic-permissions/{vhost}/{user}/{exchange}"): ("topic-permissions.clear", users.delete_topics),
}
SETTINGS: Table = {
    ("GET", "/policies"): ("policies.list", policies.list_all),
    ("GET", "/policies/{vhost}"): ("policies.list", policies.list_all),
    ("GET", "/policies/{vhost}/{policy}"): ("policies.look", policies.look),
    ("PUT", "/policies/{vhost}/{policy}"): ("policies.set", policies.put),
    ("DELETE", "/policies/{vhost}/{policy}"): ("policies.clear", policies.delete),
    ("GET", "/operator-policies"): ("operator-policies.list", policies.list_operators),
    ("GET", "/operator-policies/{vhost}"): ("operator-policies.list", policies.list_operators),
    ("GET", "/operator-policies/{vhost}/{policy}"): ("operator-policies.look", policies.look_at_operators),
    ("PUT", "/operator-policies/{vhost}/{policy}"): ("operator-policies.set", policies.put_operators),
    ("DELETE", "/operator-policies/{vhost}/{policy}"): ("operator-policies.clear", policies.delete_operators),
    ("GET", "/parameters"): ("parameters.list", policies.list_parameters),
    ("GET", "/parameters/{component}"): ("parameters.list", policies.list_parameters),
    ("GET", "/parameters/{component}/{vhost}"): ("parameters.list", policies.list_parameters),
    ("GET", "/parameters/{component}/{vhost}/{name}"): ("parameters.list", policies.look_at_parameter),
    ("PUT", "/parameters/{component}/{vhost}/{name}"): ("parameters.set", policies.put_parameter),
    ("DELETE", "/parameters/{component}/{vhost}/{name}"): ("parameters.clear", policies.delete_parameter),
    ("GET", "/global-parameters"): ("global-parameters.list", policies.list_global),
    ("GET", "/global-parameters/{name}"): ("global-parameters.list", policies.look_at_global),
    ("PUT", "/global-parameters/{name}"): ("global-parameters.set", policies.put_global),
    ("DELETE", "/global-parameters/{name}"): ("global-parameters.clear", policies.delete_global),
    ("GET", "/vhost-limits"): ("vhosts.list-limits", users.list_vhost_limits),
    ("GET", "/vhost-limits/{vhost}"): ("vhosts.look-at-limits", users.list_vhost_limits),
    ("PUT", "/vhost-limits/{vhost}/{limit}"): ("vhosts.limits", users.change_vhost_limit),
    ("DELETE", "/vhost-limits/{vhost}/{limit}"): ("vhosts.limits", users.change_vhost_limit),
    ("GET", "/user-limits"): ("users.list-limits", users.list_user_limits),
    ("GET", "/user-limits/{user}"): ("users.list-limits", users.list_user_limits),
    ("PUT", "/user-limits/{user}/{limit}"): ("users.limits", users.change_user_limit),
    ("DELETE", "/user-limits/{user}/{limit}"): ("users.limits", users.change_user_limit),
}
ALERTS: Table = {
    ("GET", "/alerts"): ("alerts.firing", alerts.list_alerts, merging.FIRING),
    ("GET", "/alerts/history"): ("alerts.history", alerts.list_events, merging.EVENTS),
    ("GET", "/alerts/rules"): ("alerts.list", alerts.list_rules),
    ("GET", "/alerts/rules/{rule}"): ("alerts.list", alerts.look_at_rule),
    ("PUT", "/alerts/rules/{rule}"): ("alerts.set", alerts.put_rule),
    ("DELETE", "/alerts/rules/{rule}"): ("alerts.clear", alerts.delete_rule),
    ("GET", "/alerts/silences"): ("alerts.silences", alerts.list_silences),
    ("POST", "/alerts/silences"): ("alerts.silence", alerts.add_silence),
    ("DELETE", "/alerts/silences/{silence}"): ("alerts.unsilence", alerts.delete_silence),
    ("GET", "/alerts/receivers"): ("alerts.receivers", alerts.list_receivers, merging.RECEIVERS),
    ("GET", "/alerts/receivers/{receiver}"): ("alerts.look-at-receiver", alerts.look_at_receiver),
    ("PUT", "/alerts/receivers/{receiver}"): ("alerts.receiver", alerts.put_receiver),
    ("DELETE", "/alerts/receivers/{receiver}"): ("alerts.forget", alerts.delete_receiver),
    ("POST", "/alerts/receivers/{receiver}/test"): ("alerts.test", alerts.test_receiver),
}
CHECKS = "/health/checks"
LEADERS = f"{CHECKS}/quorum-queues-without-elected-leaders"
HEALTH: Table = {
    ("GET", f"{CHECKS}/alarms"): ("health.cluster", health.alarms, merging.ALARMS),
    ("GET", f"{CHECKS}/local-alarms"): ("health.node", health.local_alarms),
    ("GET", f"{CHECKS}/port-listener/{{port}}"): ("health.node", health.port_listener),
    ("GET", f"{CHECKS}/protocol-listener/{{protocol}}"): ("health.node", health.protocol_listener),
    ("GET", f"{CHECKS}/virtual-hosts"): ("health.cluster", health.virtual_hosts),
    ("GET", f"{CHECKS}/node-is-mirror-sync-critical"): ("health.node", health.single_node),
    ("GET", f"{CHECKS}/node-is-quorum-critical"): ("health.cluster", health.quorum_critical),
    # Load balancers ask these without a login, as in RabbitMQ 4.
    ("GET", f"{CHECKS}/is-in-service"): ("health.ready", health.in_service),
    ("GET", f"{CHECKS}/ready-to-serve-clients"): ("health.ready", health.ready_to_serve_clients),
    ("GET", f"{CHECKS}/below-node-connection-limit"): ("health.ready", health.connection_limit),
    ("GET", f"{CHECKS}/metadata-store/initialized"): ("health.node", health.metadata_store),
    ("GET", f"{CHECKS}/metadata-store/initialized/with-data"): ("health.node", health.metadata_store_with_data),
    ("GET", f"{LEADERS}/all-vhosts"): ("health.leaders", health.queue_leaders),
    ("GET", f"{LEADERS}/all-vhosts/pattern/{{pattern}}"): ("health.leaders", health.queue_leaders),
    ("GET", f"{LEADERS}/vhost/{{vhost}}"): ("health.leaders-of-vhost", health.queue_leaders),
    ("GET", f"{LEADERS}/vhost/{{vhost}}/pattern/{{pattern}}"): ("health.leaders-of-vhost", health.queue_leaders),
    ("GET", f"{CHECKS}/certificate-expiration/{{within}}/{{unit}}"): ("health.node", health.certificate_expiration),
    ("GET", "/healthchecks/node"): ("health.node", health.node_health),
    ("GET", "/healthchecks/node/{node}"): ("health.node", health.node_health),
    ("GET", "/aliveness-test/{vhost}"): ("health.aliveness", health.aliveness),
}
ROUTES: dict[tuple[str, str], Route] = {
    key: Route(*row)
    for table in (BROKER, CLIENTS, TOPOLOGY, ACCESS, SETTINGS, ALERTS, HEALTH)
    for key, row in table.items()
}
