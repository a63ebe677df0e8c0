output "namespace" {
  description = "The namespace as a manifest."
  value       = merge(local.files["namespace"], { metadata = merge(local.files["namespace"].metadata, { name = var.namespace }) })
}

output "objects" {
  description = "All other manifests, by the names of their files."
  value       = local.objects
}

output "service" {
  description = "Name of the service for clients."
  value       = local.files["service"].metadata.name
}
