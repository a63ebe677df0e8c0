"""deploy/ is as it should be, and the checks notice when it is not."""

from copy import deepcopy
from typing import Any

import pytest

from tests.deploy import compose, dockerfiles, kubernetes
from tests.deploy.checks import NotHere, documents, refused, unpinned
from tests.deploy.table import CHECKS
from tests.sources import ROOT


@pytest.mark.parametrize("name", CHECKS)
def test_what_is_in_deploy_is_valid(name: str) -> None:
    try:
        assert list(CHECKS[name]()) == []
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("image", ["leveret", "leveret:latest", "host:5000/leveret"])
def test_an_image_without_a_version_is_noticed(image: str) -> None:
    assert list(unpinned(image))


def test_an_option_that_does_not_exist_is_noticed() -> None:
    (problem,) = refused({"LEVERET_AMPQ_PORT": "5672"}, "a node")
    assert "LEVERET_AMPQ_PORT" in problem


@pytest.mark.parametrize(
    ("line", "instead", "problem"),
    [
        ("USER 10001:10001\n", "", "runs as root"),
        ("COPY build/image/wheels", "COPY sources", "needs sources"),
        ("COPY build/image/wheels", "COPY tests", ".dockerignore leaves out"),
        ("--from=install", "--from=wheel", "the stage wheel"),
        ("ARG BASE=python:3.11.12-slim-bookworm", "ARG BASE=python", "no version"),
        ("EXPOSE 5672 ", "EXPOSE 5673 ", "exposes"),
        ('CMD ["serve"]', 'CMD ["server"]', "no command server"),
        ("ENV LEVERET_DATA", "ENV LEVERET_DATUM", "LEVERET_DATUM"),
        ("STOPSIGNAL", "STOPSIGNALS", "STOPSIGNALS is no instruction"),
    ],
)
def test_a_mistake_in_the_dockerfile_is_noticed(line: str, instead: str, problem: str) -> None:
    text = dockerfiles.OURS.read_text()
    assert line in text
    assert any(problem in each for each in dockerfiles.problems(text.replace(line, instead), ROOT))


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("redis image", "redis", "no version"),
        ("redis pots", [], "no key"),
        ("broker1 depends_on etcd4", {"condition": "service_healthy"}, "not there"),
        ("broker1 depends_on bucket condition", "service_healthy", "has no check"),
        ("broker1 environment LEVERET_CLUSTER_SECRET", "hare", "written down"),
        ("broker1 environment LEVERET_ETCD", "", "cluster needs store, etcd"),
        ("broker1 environment LEVERET_NODE", "broker2", "another name"),
        ("broker1 ports", ["0.0.0.0:5672:5672"], "offered to other machines"),
        ("broker1 ports", ["127.0.0.1:5672:5999"], "no server listens"),
        ("broker1 volumes", ["nowhere:/data"], "not declared"),
        ("broker1 volumes", ["./nowhere:/data"], "which is not there"),
        ("broker1 environment LEVERET_CLUSTER_PLAIN", "true", "without TLS"),
        ("broker1 environment LEVERET_CLUSTER_TLS_CERT", "", "belong together"),
        ("broker1 environment LEVERET_ETCD", "https://etcd1:2379,http://etcd2:2379", "etcd is reached without TLS"),
        ("broker1 environment LEVERET_ETCD_TLS_CA", "", "LEVERET_ETCD_TLS_CA is not given"),
        ("broker1 environment LEVERET_REDIS", "redis://redis:6379/0", "Redis is reached without TLS"),
        ("broker1 environment LEVERET_STORE", "postgresql://db/x?sslmode=require", "PostgreSQL is not checked"),
        ("broker1 environment LEVERET_CLUSTER_TLS_CERT", "/certificates/brokers/tls.crt", "nothing makes"),
        ("broker1 environment LEVERET_CLUSTER_TLS_CERT", "/certificates/broker/cert.pem", "does not make"),
        (
            "certificates entrypoint",
            ["sh", "x", "a", "b", "etcd:etcd1", "postgres:x", "redis:x", "broker:x"],
            "its name",
        ),
        ("etcd1 build", "./nowhere", "not there"),
        ("etcd4", {"image": "leveret-etcd:3.4"}, "4 of etcd"),
    ],
)
def test_a_mistake_in_the_compose_file_is_noticed(path: str, value: Any, problem: str) -> None:
    file = deepcopy(compose.whole())
    put(file["services"], path, value)
    assert any(problem in each for each in compose.problems(file))


@pytest.mark.parametrize("name", [*compose.PATRONI, *compose.POSTGRESQL])
def test_a_setting_of_patroni_that_is_missing_is_noticed(name: str) -> None:
    (file,) = documents(compose.FOLDER / "patroni" / "patroni.yml")
    dcs = file["bootstrap"]["dcs"]
    del (dcs if name in dcs else dcs["postgresql"]["parameters"])[name]
    (problem,) = compose.patroni_problems(file)
    assert name in problem


def test_a_database_that_takes_passwords_without_tls_is_noticed() -> None:
    (file,) = documents(compose.FOLDER / "patroni" / "patroni.yml")
    file["postgresql"]["pg_hba"].append("host all all all scram-sha-256")
    (problem,) = compose.patroni_problems(file)
    assert "without TLS" in problem


def test_too_few_connections_are_noticed() -> None:
    (file,) = documents(compose.FOLDER / "patroni" / "patroni.yml")
    file["bootstrap"]["dcs"]["postgresql"]["parameters"]["max_connections"] = 100
    (problem,) = compose.patroni_problems(file)
    assert "connections" in problem


@pytest.mark.parametrize(
    ("check", "path", "value", "problem"),
    [
        (kubernetes.schemas, "statefulset spec replica", 3, "replica"),
        (kubernetes.schemas, "configmap data LEVERET_DRAIN_S", 30, "string"),
        (kubernetes.schemas, "horizontalpodautoscaler apiVersion", "autoscaling/v2beta1", "for Kubernetes"),
        (kubernetes.listed, "ingress", {}, "do not agree on ingress.yaml"),
        (kubernetes.references, "service spec selector", {"app": "hare"}, "do not have"),
        (kubernetes.references, "service spec ports", [{"name": "a", "port": 80, "targetPort": "amqp"}], "port 80"),
        (kubernetes.references, "service spec ports", [], "nobody reaches https"),
        (kubernetes.references, "statefulset spec serviceName", "leveret", "no headless service"),
        (kubernetes.references, "horizontalpodautoscaler spec scaleTargetRef name", "hare", "something else"),
        (kubernetes.references, "serviceaccount metadata name", "hare", "no such service account"),
        (kubernetes.references, "statefulset spec volumeClaimTemplates", [], "mounts data"),
        (kubernetes.references, "secret metadata name", "hare", "which nobody makes"),
        (kubernetes.references, "configmap metadata name", "hare", "takes its options from"),
        (kubernetes.nodes, "configmap data LEVERET_PORT", "1", "LEVERET_PORT"),
        (kubernetes.nodes, "configmap data LEVERET_CLUSTER_PLAIN", "true", "without TLS"),
        (kubernetes.nodes, "configmap data LEVERET_ETCD", "http://etcd-0.etcd:2379", "etcd is reached without TLS"),
        (kubernetes.nodes, "configmap data LEVERET_REDIS", "redis://redis:6379/0", "Redis is reached without TLS"),
        (kubernetes.nodes, "configmap data LEVERET_STORE", "postgresql://x/x?sslmode=prefer", "is not checked"),
        (kubernetes.nodes, "configmap data LEVERET_DRAIN_S", "60", "before they have drained"),
        (kubernetes.nodes, "statefulset spec template spec enableServiceLinks", True, "enableServiceLinks"),
    ],
)
def test_a_mistake_in_a_manifest_is_noticed(check: Any, path: str, value: Any, problem: str) -> None:
    found = kubernetes.manifests()
    put(found, path, value)
    assert any(problem in each for each in check(found))


@pytest.mark.parametrize(
    ("probe", "problem"),
    [
        ({"exec": {"command": ["leveret", "health"]}}, "no command"),
        ({"httpGet": {"path": "/healthz", "port": "http"}}, "not served"),
        ({"httpGet": {"path": "/health/live", "port": "amqp"}}, "not served"),
    ],
)
def test_a_probe_that_nothing_answers_is_noticed(probe: dict[str, Any], problem: str) -> None:
    found = kubernetes.manifests()
    kubernetes.pod_of(found)["containers"][0]["livenessProbe"] = probe
    assert any(problem in each for each in kubernetes.nodes(found))


def put(file: dict[str, Any], path: str, value: Any) -> None:
    """Put a value where a path of keys leads."""
    *way, last = path.split()
    for key in way:
        file = file[key]
    file[last] = value
