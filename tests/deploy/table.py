"""All checks of deploy/, and what none of them does."""

from tests.deploy import compose, dockerfiles, kubernetes, monitoring, terraform
from tests.deploy.checks import Check

CHECKS: dict[str, Check] = {
    "Dockerfiles": dockerfiles.check,
    "compose file and Patroni": compose.check,
    "Kubernetes: schemas": lambda: kubernetes.schemas(kubernetes.manifests()),
    "Kubernetes: list": lambda: kubernetes.listed(kubernetes.manifests()),
    "Kubernetes: kustomize": kubernetes.check_kustomize,
    "Kubernetes: references": lambda: kubernetes.references(kubernetes.manifests()),
    "Kubernetes: nodes": lambda: kubernetes.nodes(kubernetes.manifests()),
    "Kubernetes: certificates": kubernetes.check_certificates,
    "Terraform: format": terraform.check_format,
    "Terraform: variables": terraform.check_variables,
    "Terraform: manifests": terraform.check_manifests,
    "Terraform: what it makes": terraform.check_made,
    "Terraform: root module": terraform.check_root,
    "Prometheus": monitoring.check_prometheus,
    "Grafana": monitoring.check_grafana,
}

NEVER_HERE = {
    "images": "they are not built or pulled, which needs a container engine and a network",
    "compose up": "the containers are not started",
    "kubectl apply": "no Kubernetes takes the manifests",
    "terraform apply": "nothing is made anywhere",
}
