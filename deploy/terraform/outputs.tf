output "address" {
  description = "Where clients inside of Kubernetes connect to, with TLS."
  value       = "amqps://${module.manifests.service}.${var.namespace}.svc:5671"
}
