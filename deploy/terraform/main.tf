# The manifests of deploy/kubernetes with values of your own, applied to the cluster that the provider points to. What they
# become is made by the module manifests, which needs no provider; here they are only applied.

module "manifests" {
  source = "./manifests"

  cluster       = var.cluster
  namespace     = var.namespace
  image         = var.image
  replicas      = var.replicas
  store         = var.store
  etcd          = var.etcd
  redis         = var.redis
  blobs         = var.blobs
  epoch_base    = var.epoch_base
  hosts         = var.hosts
  storage_class = var.storage_class
  extra_options = var.extra_options
}

resource "kubernetes_manifest" "namespace" {
  manifest = module.manifests.namespace
}

resource "kubernetes_manifest" "objects" {
  for_each   = module.manifests.objects
  manifest   = each.value
  depends_on = [kubernetes_manifest.namespace, kubernetes_secret_v1.leveret]
}

# Not a manifest: those are shown in plans.
resource "kubernetes_secret_v1" "leveret" {
  metadata {
    name      = "leveret"
    namespace = var.namespace
  }
  data       = var.secrets
  depends_on = [kubernetes_manifest.namespace]
}
