# The files of deploy/kubernetes, read as they are, with the values of the variables put in.

locals {
  folder = "${path.module}/../../kubernetes"
  # The secret is not one of them: what is in it must not be in a plan.
  kinds = [
    "serviceaccount", "configmap", "service-nodes", "service", "statefulset", "poddisruptionbudget",
    "horizontalpodautoscaler", "networkpolicy",
  ]
  files     = { for kind in concat(local.kinds, ["namespace"]) : kind => yamldecode(file("${local.folder}/${kind}.yaml")) }
  set       = local.files["statefulset"]
  pod       = local.set.spec.template.spec
  container = local.pod.containers[0]
  claim     = local.set.spec.volumeClaimTemplates[0]

  options = merge(local.files["configmap"].data, {
    LEVERET_CLUSTER            = var.cluster
    LEVERET_CLUSTER_EPOCH_BASE = tostring(var.epoch_base)
    LEVERET_STORE              = var.store
    LEVERET_ETCD               = join(",", var.etcd)
    LEVERET_REDIS              = var.redis
    LEVERET_BLOBS              = var.blobs
    LEVERET_HTTP_HOSTS = join(",", concat(
      [for suffix in ["", ".svc", ".svc.cluster.local"] : "*.${var.namespace}${suffix}"], ["*.leveret-nodes"], var.hosts
    ))
  }, var.extra_options)

  storage = var.storage_class == null ? {} : { storageClassName = var.storage_class }

  # Changed options are a changed template, so that nodes start anew with them.
  annotations = { "leveret/options" = sha256(jsonencode(local.options)) }

  changes = {
    configmap = { data = local.options }
    horizontalpodautoscaler = {
      spec = merge(local.files["horizontalpodautoscaler"].spec, {
        minReplicas = var.replicas
        maxReplicas = 3 * var.replicas
      })
    }
    statefulset = {
      spec = merge(local.set.spec, {
        template = merge(local.set.spec.template, {
          metadata = merge(local.set.spec.template.metadata, { annotations = local.annotations })
          spec     = merge(local.pod, { containers = [merge(local.container, { image = var.image })] })
        })
        volumeClaimTemplates = [merge(local.claim, { spec = merge(local.claim.spec, local.storage) })]
      })
    }
  }

  objects = {
    for kind in local.kinds : kind => merge(
      local.files[kind],
      { metadata = merge(local.files[kind].metadata, { namespace = var.namespace }) },
      lookup(local.changes, kind, {}),
    )
  }
}
