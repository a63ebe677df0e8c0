"""The manifests: valid by Kubernetes' own schemas, and what they name of each other and of Leveret exists."""

import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate

import leveret
from leveret.cli.main import COMMANDS
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.server import Health
from leveret.protocols.metrics.handler import WHOLE
from tests.deploy.checks import (
    DEPLOY,
    EXAMPLE,
    certificates,
    default_ports,
    documents,
    is_valid_for,
    ran,
    refused,
    unpinned,
    unprotected,
)

FOLDER = DEPLOY / "kubernetes"
LIST = "kustomization"
VERSIONS = ("1.30", "1.34")
"""Of Kubernetes: the oldest and the newest that manifests are checked for."""
FIELDS = {"metadata.name": "leveret-0", "metadata.namespace": "leveret"}
VARIABLE = re.compile(r"\$\((\w+)\)")
MADE_ELSEWHERE = {"leveret-tls", "leveret-cluster-tls", "leveret-storage-tls"}
CLIENTS = {"amqp", "amqps", "https", "sqs"}
"""Ports that the service for clients has to have; the other ones are not for them."""

Manifest = dict[str, Any]


def manifests() -> dict[str, Manifest]:
    """Every manifest, by the name of its file: Terraform reads one from each."""
    found = {path.stem: documents(path) for path in sorted(FOLDER.glob("*.yaml")) if path.stem != LIST}
    return {name: only for name, (only,) in found.items()}


def schemas(found: dict[str, Manifest]) -> Iterator[str]:
    """Each manifest by the strict schema of its kind: no unknown field, no wrong type."""
    for name, manifest in found.items():
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(manifest, version, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                yield f"{name}.yaml for Kubernetes {version}: {error}"


def listed(found: dict[str, Manifest]) -> Iterator[str]:
    """Kustomize's list has every file."""
    (whole,) = documents(FOLDER / f"{LIST}.yaml")
    wrong = {f"{name}.yaml" for name in found} ^ set(whole["resources"])
    yield from (f"{LIST}.yaml and the directory do not agree on {name}" for name in sorted(wrong))


def check_kustomize() -> Iterator[str]:
    """Kubectl makes one stream of them."""
    yield from ran("kubectl", "kustomize", ".", cwd=FOLDER)


def references(found: dict[str, Manifest]) -> Iterator[str]:
    """Selectors, ports, names and mounts lead to what is there."""
    set_, pod = found["statefulset"], pod_of(found)
    container = pod["containers"][0]
    labels = set_["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    yield from _selectors(found, labels)
    yield from _ports(found, ports)
    headless = {each["metadata"]["name"] for each in found.values() if each.get("spec", {}).get("clusterIP") == "None"}
    if set_["spec"]["serviceName"] not in headless:
        yield "statefulset.yaml: serviceName is no headless service"
    if found["horizontalpodautoscaler"]["spec"]["scaleTargetRef"]["name"] != set_["metadata"]["name"]:
        yield "horizontalpodautoscaler.yaml scales something else"
    if found["serviceaccount"]["metadata"]["name"] != pod["serviceAccountName"]:
        yield "statefulset.yaml: there is no such service account"
    volumes = {each["name"] for each in pod["volumes"]}
    volumes |= {each["metadata"]["name"] for each in set_["spec"]["volumeClaimTemplates"]}
    for mount in container["volumeMounts"]:
        if mount["name"] not in volumes:
            yield f"statefulset.yaml mounts {mount['name']}, which is not there"
    yield from _words(found, container, {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each})


def _words(found: dict[str, Manifest], container: Manifest, mounted: set[str]) -> Iterator[str]:
    """The secrets and options that nodes are started with."""
    secrets = mounted | {each["secretRef"]["name"] for each in container["envFrom"] if "secretRef" in each}
    for name in secrets - {found["secret"]["metadata"]["name"]} - MADE_ELSEWHERE:
        yield f"statefulset.yaml needs the secret {name}, which nobody makes"
    for name in {each["configMapRef"]["name"] for each in container["envFrom"] if "configMapRef" in each}:
        if name != found["configmap"]["metadata"]["name"]:
            yield f"statefulset.yaml takes its options from {name}, which is not there"


def pod_of(found: dict[str, Manifest]) -> Manifest:
    """What the nodes are made of."""
    pod = found["statefulset"]["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


def _selectors(found: dict[str, Manifest], labels: dict[str, str]) -> Iterator[str]:
    chosen = {
        "statefulset": found["statefulset"]["spec"]["selector"]["matchLabels"],
        "service": found["service"]["spec"]["selector"],
        "service-nodes": found["service-nodes"]["spec"]["selector"],
        "poddisruptionbudget": found["poddisruptionbudget"]["spec"]["selector"]["matchLabels"],
        "networkpolicy": found["networkpolicy"]["spec"]["podSelector"]["matchLabels"],
    }
    for name, selector in chosen.items():
        if not selector or not selector.items() <= labels.items():
            yield f"{name}.yaml chooses {selector}, which the nodes do not have"


def _ports(found: dict[str, Manifest], ports: dict[str, int]) -> Iterator[str]:
    defaults = default_ports()
    for name, port in ports.items():
        if defaults.get(name) != port:
            yield f"statefulset.yaml: {name} is port {port}, a server has {defaults.get(name)}"
    for file, wanted in {"statefulset": defaults.keys(), "service": CLIENTS}.items():
        offered = ports if file == "statefulset" else {port["name"] for port in found[file]["spec"]["ports"]}
        yield from (f"{file}.yaml: nobody reaches {name}" for name in sorted(wanted - set(offered)))
    for file in ("service", "service-nodes"):
        for port in found[file]["spec"]["ports"]:
            if ports.get(port["targetPort"]) != port["port"]:
                yield f"{file}.yaml: port {port['port']} leads to {port['targetPort']}"
    for rule in found["networkpolicy"]["spec"]["ingress"]:
        for port in rule["ports"]:
            if port["port"] not in ports:
                yield f"networkpolicy.yaml: the nodes have no port {port['port']}"


def nodes(found: dict[str, Manifest]) -> Iterator[str]:
    """A server takes the environment of a node; probes and metrics ask for what there is; nothing runs as root."""
    pod = pod_of(found)
    container = pod["containers"][0]
    yield from unpinned(container["image"])
    yield from refused(environment(found), "statefulset.yaml")
    yield from unprotected(environment(found), "configmap.yaml")
    if pod.get("enableServiceLinks") is not False:
        yield "statefulset.yaml: variables of services would be taken for options: enableServiceLinks has to be false"
    if not (pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]):
        yield "statefulset.yaml: nodes have more rights than they need"
    if float(found["configmap"]["data"]["LEVERET_DRAIN_S"]) + 10 >= pod["terminationGracePeriodSeconds"]:
        yield "statefulset.yaml: nodes are killed before they have drained"
    if f".{found['statefulset']['spec']['serviceName']}." not in environment(found)["LEVERET_ANNOUNCE"]:
        yield "statefulset.yaml: other nodes are told a name that no service gives"
    known = set(COMMANDS)
    for probe in (container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")):
        if "exec" in probe and (probe["exec"]["command"][0] != "leveret" or probe["exec"]["command"][1] not in known):
            yield f"statefulset.yaml: a probe runs {probe['exec']['command']}, which is no command"
        if "httpGet" in probe and (probe["httpGet"]["port"] != "http" or not is_served(probe["httpGet"]["path"])):
            yield f"statefulset.yaml: a probe asks for {probe['httpGet']}, which is not served"
    families = {each.family.name for each in WHOLE}
    for metric in found["horizontalpodautoscaler"]["spec"]["metrics"]:
        if metric["type"] == "External" and metric["external"]["metric"]["name"] not in families:
            yield f"horizontalpodautoscaler.yaml: there is no metric {metric['external']['metric']['name']}"


def check_certificates() -> Iterator[str]:
    """The commands of the page make certificates that nodes take from each other, in files that the options name."""
    found = manifests()
    page = (DEPLOY / "README.md").read_text()
    words = shlex.split(re.findall(r"certificates\.sh \S+ \S+ (.*)", page)[0])
    secrets = re.findall(r"create secret generic (\S+) .*--from-file=\S*?certificates/([\w-]+)", page)
    environ = environment(found)
    with tempfile.TemporaryDirectory() as name:
        made = certificates(Path(name), words)
        nodes = made / dict(secrets)["leveret-cluster-tls"]
        if not is_valid_for(nodes / "tls.crt", nodes / "ca.crt", environ["LEVERET_ANNOUNCE"]):
            yield f"README.md: its certificate of nodes is not valid for {environ['LEVERET_ANNOUNCE']}"
        volumes = {each["name"]: each["secret"]["secretName"] for each in pod_of(found)["volumes"] if "secret" in each}
        mounts = {
            each["mountPath"]: volumes.get(each["name"]) for each in pod_of(found)["containers"][0]["volumeMounts"]
        }
        for path in sorted(set(re.findall(r"/etc/leveret/[\w./-]+", " ".join(environ.values())))):
            secret = mounts.get(str(Path(path).parent))
            if secret not in dict(secrets) or not (made / dict(secrets)[secret] / Path(path).name).exists():
                yield f"README.md: no command makes {path}"


def is_served(path: str) -> bool:
    """Whether a server that is well says so at a path."""
    with leveret.open() as broker:
        health = Health(broker.runtime, lambda: False, lambda: None)
        try:
            answered = health.answer(Request("GET", path.encode(), {}, HttpPeer("127.0.0.1", 1)))
        except Refusal:
            return False
        assert isinstance(answered, Response), "it answers at once"
        return answered.status == 200


def environment(found: dict[str, Manifest]) -> dict[str, str]:
    """What the first node has in its environment, with example words for secrets."""
    container = pod_of(found)["containers"][0]
    environ = dict(found["configmap"]["data"]) | dict.fromkeys(found["secret"]["stringData"], EXAMPLE)
    for each in container["env"]:
        value = each.get("value") or FIELDS[each["valueFrom"]["fieldRef"]["fieldPath"]]
        environ[each["name"]] = VARIABLE.sub(lambda found: environ[found[1]], value)
    return environ
