import dataclasses
from argparse import ArgumentParser
from pathlib import Path

import pytest

from leveret.cli.serve import configure
from leveret.config import MIB, ServerOptions
from leveret.core.errors import InvalidArgument
from leveret.server.settings import OPTIONS, VALUE_CHARACTERS_MAX, broker_options, flag, parse, server_options, variable

SECRET = "0123456789abcdef" * 2
NODE = {"cluster": "shop", "store": "postgresql:///x", "etcd": "http://127.0.0.1:1", "cluster_secret": SECRET}


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "leveret.toml"
    path.write_text(text)
    return str(path)


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    config = written(tmp_path, "amqp_port = 1\nhttp_port = 1\nsqs_port = 1\n")
    environ = {"LEVERET_AMQP_PORT": "2", "LEVERET_HTTP_PORT": "2", "PATH": "/bin"}
    options = server_options({"amqp_port": "3"}, environ, config)
    assert (options.amqp_port, options.http_port, options.sqs_port) == (3, 2, 1)
    assert options.amqps_port == ServerOptions().amqps_port


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    environ = {"LEVERET_CONFIG": written(tmp_path, "drain_s = 3")}
    assert server_options({}, environ).drain_s == 3


def test_a_section_is_the_first_word_of_its_names(tmp_path: Path) -> None:
    config = written(tmp_path, '[amqp]\nport = 7\n[tls]\ncert = "a.pem"\nclient_ca = "b.pem"\nverify_client = true\n')
    options = server_options({}, {}, config)
    assert (options.amqp_port, options.tls_cert, options.tls_verify_client) == (7, "a.pem", True)


def test_old_names_of_options_go_on_working(tmp_path: Path) -> None:
    config = written(tmp_path, '[jwt]\nissuer = "https://id.example"\naudience = "shop"\n')
    options = server_options({}, {"LEVERET_JWT_KEYS": "keys.json"}, config)
    assert (options.oauth_issuer, options.oauth_resource_server_id) == ("https://id.example", "shop")
    assert options.oauth_keys == "keys.json"
    with pytest.raises(InvalidArgument, match="oauth_keys is in the environment twice"):
        server_options({}, {"LEVERET_JWT_KEYS": "a", "LEVERET_OAUTH_KEYS": "b"})
    with pytest.raises(InvalidArgument, match=r"oauth_issuer is in .* twice"):
        server_options({}, {}, written(tmp_path, 'jwt_issuer = "a"\noauth_issuer = "b"\n'))


def test_a_name_with_its_section_and_without_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"amqp_port is in .* twice"):
        server_options({}, {}, written(tmp_path, "amqp_port = 1\n[amqp]\nport = 2\n"))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cache_bytes", "64MiB", 64 * MIB),
        ("cache_bytes", "1.5 KB", 1_500),
        ("message_bytes_max", "4096", 4_096),
        ("interval_ms", "2s", 2_000),
        ("interval_ms", "250", 250),
        ("drain_s", "500ms", 0.5),
        ("drain_s", "1m", 60),
        ("memory_limit", "0.25", 0.25),
        ("memory_limit", "2GiB", 2048 * MIB),
        ("tracing_ratio", "0.01", 0.01),
        ("salvage", "Yes", True),
        ("salvage", "0", False),
        ("amqp_port", "off", None),
        ("log_format", "json", "json"),
        ("connections_max", "1_000", 1_000),
    ],
)
def test_values_are_read_as_people_write_them(name: str, text: str, value: object) -> None:
    assert parse(OPTIONS[name], text) == value


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("cache_bytes", "64 parsecs", "written like 64MiB"),
        ("cache_bytes", "-1", "written like"),
        ("drain_s", "soon", "written like 10s"),
        ("salvage", "maybe", "true or false"),
        ("amqp_port", "65536", "at most 65535"),
        ("amqp_port", "amqp", "whole number"),
        ("frame_bytes_max", "4096", "at least 8192"),
        ("channels_max", "0", "at least 1"),
        ("tracing_ratio", "1%", "written like 0.01"),
        ("tracing_ratio", "1.5", "at most 1"),
        ("log_level", "loud", "debug, info, warning, error"),
        ("data", "x" * (VALUE_CHARACTERS_MAX + 1), "at most 4096 characters"),
    ],
)
def test_what_a_value_cannot_be_is_said_with_the_name_of_its_option(name: str, text: str, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name} cannot be .*{advice}"):
        parse(OPTIONS[name], text)


def test_a_secret_is_not_repeated() -> None:
    with pytest.raises(InvalidArgument) as raised:
        server_options({}, {"LEVERET_DEFAULT_PASSWORD": "hush" * VALUE_CHARACTERS_MAX})
    assert "hush" not in str(raised.value)
    assert "hush" not in repr(ServerOptions(default_password="hush"))


def test_an_unknown_name_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'amqp_port'"):
        server_options({}, {}, written(tmp_path, "[amqp]\nprot = 1\n"))
    with pytest.raises(InvalidArgument, match="did you mean 'LEVERET_AMQP_PORT'"):
        server_options({}, {"LEVERET_AMQP_PROT": "1"})


@pytest.mark.parametrize("text", ["amqp_port", "\0", "a = [1", "x = 1\nx = 2"])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not TOML"):
        server_options({}, {}, written(tmp_path, text))


def test_a_file_that_is_missing_or_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot read the configuration file"):
        server_options({}, {}, str(tmp_path / "nowhere.toml"))
    with pytest.raises(InvalidArgument, match=r"\.toml is over 1048576 bytes"):
        server_options({}, {}, written(tmp_path, "#" * (MIB + 1)))


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        ({"tls_key": "key.pem"}, "without tls_cert"),
        ({"tls_cert": "cert.pem", "tls_verify_client": "true"}, "needs tls_client_ca"),
        ({"http_cert_login": "on"}, "http_cert_login needs tls_client_ca"),
        ({"tls_cert": "cert.pem", "tls_crl": "revoked.crl"}, "tls_crl needs tls_client_ca"),
        ({**NODE, "cluster_tls_crl": "revoked.crl"}, "cluster_tls_crl needs cluster_tls_ca"),
        ({"default_user": "admin", "default_password": "guest"}, "choose another, or leave it out"),
        ({"amqp_port": "off"}, "no port to listen on"),
        ({"blob_bytes": "0"}, "blob_bytes must be positive"),
        ({"proxy_protocol": "amqp,smtp"}, "proxy_protocol is a list by commas of amqp, amqps,"),
        ({"proxy_protocol": "amqp", "proxy_protocol_from": "10.0.0.1/8"}, "addresses and networks by commas"),
        ({"cluster": "shop"}, "cluster needs store"),
        ({**NODE, "message_bytes_max": "33MiB"}, "message_bytes_max of a node is at most"),
        ({**NODE, "announce": "10.0.0.1:5672"}, "announce is a host"),
        ({**NODE, "announce": "0.0.0.0"}, "announce is a host"),
        ({**NODE, "cluster_tls_cert": "cert.pem"}, "cluster_tls_ca belong together"),
        ({**NODE, "etcd": "http://127.0.0.1:1,ftp://etcd"}, "'ftp://etcd' is no endpoint"),
        ({**NODE, "etcd": "http://me:secret@etcd"}, "give etcd_user"),
        ({**NODE, "etcd_tls_cert": "cert.pem"}, "etcd_tls_key belong together"),
        ({**NODE, "cluster_secret": SECRET[:-1]}, r"cluster_secret has 31 bytes.*openssl rand -hex 32"),
        ({**NODE, "cluster_secret": "0" * 64}, r"fewer than 8 different characters.*openssl rand -hex 32"),
        ({**NODE, "cluster_secret": SECRET * 33}, "cluster_secret has 1056 bytes"),
        ({**NODE, "cluster_secret_previous": "hare"}, "cluster_secret_previous has 4 bytes"),
        ({**NODE, "cluster_secret_previous": SECRET}, "the same as cluster_secret"),
        ({**NODE, "node": "n" * 256}, "node is a name of 1 to 255 bytes"),
        ({**NODE, "cluster": "a\nb"}, "cluster is a name"),
        ({**NODE, "host": "0.0.0.0"}, "would not be encrypted"),
        ({**NODE, "host": "broker1,127.0.0.1"}, "would not be encrypted"),
    ],
)
def test_options_that_contradict_each_other_are_refused(flags: dict[str, str], advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        server_options(flags, {})


@pytest.mark.parametrize(
    "more",
    [
        {"announce": "::1"},
        {"host": "0.0.0.0", "announce": "a.nodes", "cluster_plain": "true"},
        {"host": "10.0.0.1", **{f"cluster_tls_{name}": "file.pem" for name in ("cert", "key", "ca")}},
    ],
)
def test_a_node_may_be_reached_from_elsewhere_by_tls_or_where_that_is_allowed(more: dict[str, str]) -> None:
    assert server_options({**NODE, **more}, {}).cluster == "shop"


def test_every_default_can_be_written_down() -> None:
    for name, option in OPTIONS.items():
        written_default = "off" if option.default is None else option.default
        assert parse(option, written_default) == option.default, name


def test_names_derive_from_the_option() -> None:
    assert (flag("amqp_port"), variable("amqp_port")) == ("--amqp-port", "LEVERET_AMQP_PORT")


def test_every_option_that_is_no_secret_is_a_flag() -> None:
    parser = ArgumentParser()
    configure(parser)
    flags = {each for action in parser._actions for each in action.option_strings}
    public = {flag(name) for name, option in OPTIONS.items() if not option.metadata["secret"]}
    assert public <= flags


def test_the_broker_gets_its_own_options_only() -> None:
    given = broker_options(ServerOptions(sync="never", data="elsewhere"))
    assert given["sync"] == "never"
    assert "data" not in given
    assert set(given) < {each.name for each in dataclasses.fields(ServerOptions)}
