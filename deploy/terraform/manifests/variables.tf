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

  validation {
    condition     = can(regex("(:[^:/]*[0-9][^:/]*|@sha256:[0-9a-f]{64})$", var.image))
    error_message = "Name a version of the image: a tag with a number, or a digest."
  }
}

variable "replicas" {
  description = "Nodes at least; the autoscaler may add twice as many."
  type        = number
  default     = 3

  validation {
    condition     = var.replicas >= 2
    error_message = "One node has nobody to take over from it: give two or more."
  }
}

variable "store" {
  description = "URL of the PostgreSQL database, without a password, with sslmode=verify-full."
  type        = string

  validation {
    condition     = can(regex("^postgres(ql)?://", var.store)) && !can(regex("://[^@/]*:[^@/]*@", var.store))
    error_message = "Give a URL of PostgreSQL without a password: that one belongs into PGPASSWORD of secrets."
  }
  validation {
    condition     = can(regex("[?&]sslmode=verify-full(&|$)", var.store)) && can(regex("[?&]sslrootcert=", var.store))
    error_message = "End the URL with sslmode=verify-full&sslrootcert=/etc/leveret/storage-tls/ca.crt: nodes check the certificate."
  }
}

variable "etcd" {
  description = "URLs of etcd, with https."
  type        = list(string)

  validation {
    condition     = length(var.etcd) > 0
    error_message = "Give the URLs of etcd: nodes find each other there."
  }
  validation {
    condition     = alltrue([for each in var.etcd : startswith(each, "https://")])
    error_message = "Give https:// URLs of etcd: who writes to it controls the cluster."
  }
}

variable "redis" {
  description = "URL of the Redis that nodes share limits by (rediss://), without a password; off is none."
  type        = string
  default     = "off"

  validation {
    condition     = var.redis == "off" || can(regex("^rediss://[^@]+$", var.redis))
    error_message = "Give a rediss:// URL of Redis without a password: that one belongs into LEVERET_REDIS_PASSWORD of secrets."
  }
}

variable "blobs" {
  description = "URL of the object store for large bodies."
  type        = string
}

variable "epoch_base" {
  description = "Raised by one when etcd has lost its data, or when a second region takes over."
  type        = number
  default     = 0

  validation {
    condition     = var.epoch_base >= 0 && var.epoch_base < 4194304
    error_message = "A whole number below 4194304."
  }
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
