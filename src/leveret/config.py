"""Every option of a broker and of its server once: name, default, help and range.

The name gives the unit (`_bytes`, `_ms`, `_s`, `_port`, `_max`), and everything else derives from it: `amqp_port` is
the flag `--amqp-port`, the environment variable `LEVERET_AMQP_PORT` and the key `amqp_port` of the configuration file,
or `port` in its section `[amqp]`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

MIB = 1 << 20
PORT_MAX = 65_535


def option(default: Any, help: str, *, at_least: int = 0, at_most: int | None = None, secret: bool = False) -> Any:
    """A field with its help and its range; a secret one is not shown, and is no flag that every process can read."""
    metadata = {"help": help, "at_least": at_least, "at_most": at_most, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


def port(default: int | None, help: str) -> Any:
    """A port; 0 is any that is free, None is off."""
    return option(default, help, at_most=PORT_MAX)


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """What a broker keeps, where and how safely; the same for an embedded one and for a server.

    What concerns files has no effect on a broker in memory.
    """

    sync: Literal["always", "interval", "never"] = option(
        "always", "when send() returns: always = on disk; interval, never = a power cut may lose what was confirmed"
    )
    interval_ms: int = option(200, "time between syncs when sync is interval")
    encryption_key_file: str | None = option(None, "file with the keys for encryption at rest; the first one writes")
    encryption_key_env: str | None = option(None, "environment variable with the keys for encryption at rest")
    archive_dir: str | None = option(
        None, "directory that gets each log segment before it is removed; none is kept as history then"
    )
    history_age_s: float = option(
        7 * 86_400, "time for which log segments are kept as history for the pipeline; 0: they are removed at once"
    )
    history_bytes: int = option(
        10 << 30, "size of that history, of all shards of a cluster together; beyond, the oldest goes; 0: none is kept"
    )
    history_events: Literal["durable", "all"] = option(
        "all", "what history tells of: durable = what is written anyway, all = also transient messages and refusals"
    )
    blobs: str | None = option(None, "URL of the object store for large bodies; default: a directory beside the log")
    blob_bytes: int = option(256 * 1024, "bodies over this size are kept outside of the log")
    message_bytes_max: int = option(16 * MIB, "largest body of a queue without a max_message_size of its own")
    segment_bytes: int = option(64 * MIB, "size of a log segment")
    cache_bytes: int = option(
        16 * MIB, "memory for the end of the log, so that recent messages are not read back from disk"
    )
    checkpoint_bytes: int = option(256 * MIB, "bytes written between two checkpoints")
    spare_bytes: int = option(64 * MIB, "room kept so that acknowledgements work on a full disk")
    disk_free_min_bytes: int = option(256 * MIB, "free space below which publishes are refused")
    salvage: bool = option(False, "skip damaged parts of the log instead of refusing to start")
    tracing: bool = option(False, "send spans of traced messages to a collector of OpenTelemetry")
    tracing_endpoint: str | None = option(None, "URL of the collector; default: as OTEL_EXPORTER_OTLP_ENDPOINT says")
    tracing_ratio: float = option(
        0, "share of the messages without a trace context that get one; 0: only what publishers trace", at_most=1
    )
    tracing_rate_max: int = option(1_000, "messages that are traced in a second; 0 is no limit")
    tracing_spans_max: int = option(10_000, "spans that may wait for the collector; more are dropped", at_least=1)


@dataclass(frozen=True, kw_only=True)
class Options(StoreOptions):
    """How a broker is opened: the keywords of leveret.open. docs/options.md has each option with its help."""

    on_failure: Literal["exit", "raise"] = option(
        "exit", "after a failed write or sync: end the process, or raise JournalFailed from every verb"
    )


@dataclass(frozen=True, kw_only=True)
class ServerOptions(StoreOptions):
    """How a server is started: `leveret serve`. docs/options.md has each option with its help."""

    data: str = option("data", "directory of the messages; made when it is not there")
    store: str | None = option(
        None, "URL of a PostgreSQL database that has the messages instead; the directory keeps what is not a message"
    )
    cluster: str | None = option(None, "name of the cluster that this server is a node of; needs store and etcd")
    node: str | None = option(None, "name of this node in its cluster; default: the name of the machine")
    etcd: str | None = option(None, "URLs of etcd, which decides who has which shard; by commas")
    etcd_user: str | None = option(None, "user of etcd, if it asks who is there")
    etcd_password: str = option("", "password of that user; not a flag", secret=True)
    etcd_tls_ca: str | None = option(
        None, "file with the certificates that those of etcd are checked against, in PEM; default: the machine's"
    )
    etcd_tls_cert: str | None = option(None, "file with the certificate that this node shows to etcd, if it asks")
    etcd_tls_key: str | None = option(None, "file with the key of that certificate")
    announce: str | None = option(
        None,
        "host at which others reach this node; default: the first of host, or the machine's name if that is all",
    )
    cluster_port: int = option(25_672, "port that other nodes connect to; 0 is any free one", at_most=65_535)
    cluster_secret: str = option(
        "", "secret of 32 bytes or more that all nodes of a cluster share; not a flag", secret=True
    )
    cluster_secret_previous: str = option(
        "", "the secret before, which is valid too while nodes get a new one; not a flag", secret=True
    )
    cluster_tls_cert: str | None = option(None, "file with the certificate that this node shows to others, in PEM")
    cluster_tls_key: str | None = option(None, "file with the key of that certificate")
    cluster_tls_ca: str | None = option(None, "file with the certificates that those of others are checked against")
    cluster_tls_crl: str | None = option(
        None, "file with revocation lists (PEM) of the authority of nodes; read again when it changes"
    )
    cluster_plain: bool = option(False, "let nodes on several machines speak with each other without TLS")
    cluster_shards: int = option(32, "parts that queues are spread over; never changes", at_least=1, at_most=1_024)
    cluster_lease_s: int = option(4, "time after which the shards of a silent node are taken", at_least=1, at_most=60)
    cluster_epoch_base: int = option(
        0, "raised by one on every node when etcd has lost its data or is another one", at_most=(1 << 22) - 1
    )
    redis: str | None = option(None, "URL of a Redis in which nodes share rate limits, failed logins and answers")
    redis_password: str = option("", "password of it, if the URL has none; not a flag", secret=True)
    host: str = option("127.0.0.1", "address to listen on; several are separated by commas, 0.0.0.0 is all of IPv4")
    amqp_port: int | None = port(5672, "port for AMQP without TLS; 0 is any free one, off is none")
    amqps_port: int | None = port(5671, "port for AMQP with TLS, opened when there is a certificate; 0 is any free one")
    http_port: int | None = port(15672, "port for HTTP without TLS: console, REST, management; 0 is any, off is none")
    https_port: int | None = port(15671, "port for HTTP with TLS, opened when there is a certificate")
    http_rate_max: int = option(0, "requests a second that one user may send over HTTP on average; 0 is no limit")
    http_burst_max: int = option(1_000, "requests that one user may send over HTTP at once", at_least=1)
    http_memory_bytes: int = option(
        256 * MIB, "memory for requests over HTTP and SQS that are being received or answered; more are refused: 503"
    )
    http_unread_bytes: int = option(
        256 * MIB, "memory for answers over HTTP and SQS that clients do not read; more, and some of these are closed"
    )
    http_body_s: float = option(300, "time in which the body of a request has to come, however large", at_least=1)
    http_cert_login: bool = option(
        False, "let a verified client certificate be the user of HTTP requests that have no other credentials"
    )
    http_hosts: str | None = option(
        None,
        "names of the server in the header Host, by commas; *.name is all below one, * is any; addresses, localhost "
        "and, unless host is loopback, names without a dot are always taken",
    )
    http_origins: str | None = option(None, "origins of web pages that may use HTTP from a browser; by commas")
    metrics_public: bool = option(False, "let every machine scrape /metrics without a login")
    auth_backends: str | None = option(
        None,
        "what decides logins: internal (stored users), oauth2 (web tokens), ldap; asked in this order, by commas; "
        "default: oauth2 if there is an oauth_issuer, then internal, then ldap if there are ldap_urls",
    )
    oauth_issuer: str | None = option(
        None, "issuer whose web tokens are taken, as passwords too; a URL unless oauth_keys is given; default: none"
    )
    oauth_resource_server_id: str = option("leveret", "audience of tokens for this server; begins their scopes")
    oauth_keys: str | None = option(
        None, "file or URL of the JWK set that tokens are signed with; default: as the issuer says at its URL"
    )
    oauth_ca: str | None = option(
        None, "file with the certificates that those of the issuer are checked against; default: the machine's"
    )
    oauth_username_claims: str | None = option(
        None, "claims that have the name of the user, by commas; then sub and client_id are tried"
    )
    oauth_scope_prefix: str | None = option(None, "what scopes begin with; default: oauth_resource_server_id and a dot")
    oauth_scope_aliases: str | None = option(None, "scopes that a role stands for: role=scope scope;other=scope")
    oauth_additional_scopes_key: str | None = option(
        None, "claims that have scopes or roles beside the claim scope, like realm_access.roles; by commas"
    )
    oauth_client_id: str | None = option(None, "client that the console logs people in at the issuer as; default: none")
    oauth_client_secret: str = option("", "secret of that client, if it has one; not a flag", secret=True)
    oauth_scopes: str = option("openid profile", "scopes that the console asks the issuer for")
    oauth_label: str = option("single sign-on", "what the console calls the issuer")
    oauth_redirect_url: str | None = option(
        None, "URL of /console/oauth/callback as browsers see it; default: by the host that they ask"
    )
    ldap_urls: str | None = option(
        None, "LDAP servers that know users, as ldaps://ldap.example.org or ldap://...; tried in this order, by commas"
    )
    ldap_starttls: bool = option(True, "speak TLS with servers that begin with ldap:// (StartTLS)")
    ldap_plain_remote: bool = option(False, "let passwords go to LDAP servers on other machines without TLS")
    ldap_ca: str | None = option(
        None, "file with the certificates that those of LDAP servers are checked against; default: the system's"
    )
    ldap_timeout_s: float = option(5, "time that an LDAP server has to answer a login", at_least=1, at_most=60)
    ldap_cache_s: float = option(
        60, "time for which a right LDAP password is remembered; 0 is not at all", at_most=3_600
    )
    ldap_bind_dn: str | None = option(None, "entry that this server logs in to LDAP as, to search for users and groups")
    ldap_bind_password: str = option("", "its password; not a flag", secret=True)
    ldap_user_dn: str | None = option(
        None, "the entry of a user, as uid=${username},ou=people,dc=example,dc=org; without it users are searched for"
    )
    ldap_user_base: str | None = option(None, "entry below which users are searched for")
    ldap_user_filter: str = option("(uid=${username})", "which entry is a user; (sAMAccountName=${username}) in AD")
    ldap_group_base: str | None = option(None, "entry below which groups are searched for")
    ldap_group_filter: str = option("(member=${user_dn})", "which groups a user is in, by ${user_dn} or ${username}")
    ldap_group_attribute: str | None = option(None, "attribute of users that names their groups, as memberOf")
    ldap_nested_groups: bool = option(False, "whether groups that the groups of a user are in count as well")
    ldap_mapping: str | None = option(None, "file (TOML or JSON) with the tags and permissions that LDAP groups have")
    staging_bytes_max: int = option(8192 * MIB, "bytes that batches of all sinks may have staged", at_least=MIB)
    staging_sink_bytes_max: int = option(2048 * MIB, "bytes that one sink may have staged", at_least=MIB)
    staging_user_bytes_max: int = option(4096 * MIB, "bytes that all sinks of one user may have staged", at_least=MIB)
    staging_pieces_max: int = option(400_000, "pieces that may be staged; each is a file, or a blob", at_least=1)
    staging_user_pieces_max: int = option(100_000, "pieces that one user may have staged", at_least=1)
    staging_age_s: float = option(86_400, "time after which parts that are not committed are dropped", at_least=60)
    sink_batches_max: int = option(100, "batches of each sink that are remembered", at_least=1, at_most=10_000)
    reports_dir: str | None = option(None, "directory with reports of the pipeline, which the console shows")
    sqs_port: int | None = port(9324, "port for SQS without TLS; 0 is any free one, off is none")
    sqs_tls_port: int | None = port(None, "port for SQS with TLS, opened when there is a certificate")
    sqs_auth: Literal["on", "off"] = option(
        "on", "on: requests are signed by access keys of users; off: every client may do everything, for development"
    )
    sqs_account: str = option("000000000000", "account number in URLs and ARNs of SQS")
    sqs_region: str = option("us-east-1", "region in ARNs of SQS")
    sqs_regions: str | None = option(
        None,
        "regions whose SQS queues are apart, by commas: each has the virtual host of its name, sqs_region has "
        "sqs_vhost; requests signed for other regions are refused; default: all regions see the same queues",
    )
    sqs_vhost: str = option("/", "virtual host whose queues SQS shows")
    sqs_guards: bool = option(True, "purge a queue once a minute at most, make it again a minute after its deletion")
    tls_cert: str | None = option(None, "file with the certificate of the server and those that lead to it, in PEM")
    tls_key: str | None = option(None, "file with the key of the certificate; default: it is in the same file")
    tls_client_ca: str | None = option(None, "file with the certificates that those of clients are checked against")
    tls_verify_client: bool = option(False, "refuse TLS clients that have no certificate")
    tls_crl: str | None = option(
        None, "file with revocation lists (PEM) of every authority of client certificates; read again when it changes"
    )
    tls_cert_login_from: Literal["common_name", "distinguished_name", "subject_alternative_name"] = option(
        "common_name", "which name of a client certificate is the user name"
    )
    tls_cert_login_san_type: Literal["dns", "email", "uri", "ip"] = option(
        "dns", "type of the subject alternative name that is the user name, if one is"
    )
    heartbeat_s: int = option(60, "seconds between heartbeats that clients are asked for; 0 is none", at_most=65_535)
    frame_bytes_max: int = option(131_072, "largest AMQP frame", at_least=8_192, at_most=MIB)
    channels_max: int = option(2_047, "channels of one AMQP connection", at_least=1, at_most=65_535)
    handshake_timeout_s: float = option(10, "time in which a client has to be logged in, TLS included", at_least=1)
    consumer_timeout_s: int = option(
        1_800, "time in which an AMQP client has to settle a delivery, if its queue has no x-consumer-timeout; 0 is any"
    )
    connections_max: int = option(16_000, "connections at the same time, of AMQP, of HTTP and of SQS each", at_least=1)
    connections_per_ip_max: int = option(
        10_000, "connections of one address (IPv6: of a /64) at the same time, of each of the three", at_least=1
    )
    half_open_max: int = option(
        1_000, "connections that have not authenticated, of each of the three; a new one closes the oldest", at_least=1
    )
    half_open_per_ip_max: int = option(
        500, "the same for one address: a new one closes its oldest connection that has not authenticated", at_least=1
    )
    proxy_protocol: str | None = option(
        None,
        "listeners (amqp, amqps, http, https, sqs, sqs+tls) whose connections come from load balancers that tell the "
        "client's address by PROXY protocol version 2; by commas",
    )
    proxy_protocol_from: str = option(
        "127.0.0.0/8,::1",
        "addresses and networks of those load balancers, by commas; connections of others are refused",
    )
    memory_limit: float = option(
        0.6, "memory above which publishers are blocked: a share of what the process may have, or a size"
    )
    disk_alarm_bytes: int = option(512 * MIB, "free disk space below which publishers are blocked")
    plain_auth_remote: bool = option(False, "let passwords come from other machines without TLS")
    default_user: str | None = option(
        "guest",
        "administrator that is made when there is no user; guest with a random password is called admin; off is none",
    )
    default_password: str = option(
        "",
        "its password; not a flag; default: guest for guest on loopback, else a random one, printed once",
        secret=True,
    )
    password_chars_min: int = option(
        8,
        "fewest characters of a password that is set; hashes that are imported are not checked",
        at_least=1,
        at_most=128,
    )
    audit_bytes_max: int = option(
        32 * MIB, "bytes that each of the three audit logs keeps: administration, clients, refusals", at_least=MIB
    )
    audit_forward: str | None = option(
        None,
        "URL that audit rows are sent to: syslog://, syslog+tcp://, syslog+tls://, syslog+unix:///dev/log, https://",
    )
    audit_forward_authorization: str = option("", "header Authorization for https://; not a flag", secret=True)
    audit_forward_ca: str | None = option(
        None, "file with the certificates that the collector is checked against; default: as alerts_ca"
    )
    audit_forward_plain: bool = option(False, "let audit rows go to other machines without TLS")
    audit_forward_rows_max: int = option(
        10_000,
        "audit rows that may wait for the collector; more are dropped and counted",
        at_least=100,
        at_most=1_000_000,
    )
    alerts_every_s: float = option(15, "time between two looks at all queues for alerts; 0 is never")
    alerts_ca: str | None = option(
        None, "file with the certificates that receivers of alerts are checked against; default: the system's"
    )
    alerts_plain_remote: bool = option(False, "let alerts go to other machines without TLS")
    drain_s: float = option(10, "time that clients have to close when the server stops")
    log_level: Literal["debug", "info", "warning", "error"] = option("info", "least level that is logged")
    log_format: Literal["text", "json"] = option("text", "one line for people, or one JSON object, for each event")
