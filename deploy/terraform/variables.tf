variable "cluster" {
  description = "Name of the cluster; it never changes."
  type        = string
  default     = "leveret"
}

variable "namespace" {
  description = "Namespace of Kubernetes, which is made."
  type        = string
  default     = "leveret"
}

variable "image" {
  description = "Image of Leveret, with a version."
  type        = string
}

variable "replicas" {
  description = "Nodes at least; the autoscaler may add twice as many."
  type        = number
  default     = 3
}

variable "store" {
  description = "URL of the PostgreSQL database, without a password, with sslmode=verify-full."
  type        = string
}

variable "etcd" {
  description = "URLs of etcd, with https."
  type        = list(string)
}

variable "redis" {
  description = "URL of the Redis that nodes share limits by (rediss://), without a password; off is none."
  type        = string
  default     = "off"
}

variable "blobs" {
  description = "URL of the object store for large bodies."
  type        = string
}

variable "epoch_base" {
  description = "Raised by one when etcd has lost its data, or when a second region takes over."
  type        = number
  default     = 0
}

variable "storage_class" {
  description = "Storage class of the nodes' volumes; null is the default one."
  type        = string
  default     = null
}

variable "hosts" {
  description = "More names of the server, without TLS: that of an ingress, for example; *.name is all below one."
  type        = list(string)
  default     = []
}

variable "extra_options" {
  description = "More options of nodes, as environment variables."
  type        = map(string)
  default     = {}
}

variable "secrets" {
  description = "The keys of deploy/kubernetes/secret.yaml with their values."
  type        = map(string)
  sensitive   = true
}
