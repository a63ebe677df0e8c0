variables {
  cluster    = "orders"
  namespace  = "messaging"
  image      = "example/leveret:0.1.0"
  replicas   = 5
  store      = "postgresql://leveret@db/leveret?sslmode=verify-full&sslrootcert=/etc/leveret/storage-tls/ca.crt"
  etcd       = ["https://etcd-0:2379", "https://etcd-1:2379"]
  blobs      = "s3://bodies/orders"
  epoch_base = 1
}

run "values_are_put_in" {
  command = plan

  assert {
    condition     = output.objects["statefulset"].spec.template.spec.containers[0].image == "example/leveret:0.1.0"
    error_message = "the image is another one"
  }
  assert {
    condition     = output.objects["configmap"].data["LEVERET_ETCD"] == "https://etcd-0:2379,https://etcd-1:2379"
    error_message = "etcd is another one"
  }
  assert {
    condition     = output.objects["configmap"].data["LEVERET_CLUSTER_EPOCH_BASE"] == "1"
    error_message = "the base of epochs is not put in"
  }
  assert {
    condition     = strcontains(output.objects["configmap"].data["LEVERET_HTTP_HOSTS"], "*.messaging.svc,")
    error_message = "nodes do not answer to the names of their services"
  }
  assert {
    condition     = output.objects["horizontalpodautoscaler"].spec.minReplicas == 5
    error_message = "there may be fewer nodes than asked for"
  }
  assert {
    condition     = alltrue([for each in output.objects : each.metadata.namespace == "messaging"])
    error_message = "something is in another namespace"
  }
  assert {
    condition     = !can(output.objects["statefulset"].spec.replicas)
    error_message = "the number of nodes is fixed, against the autoscaler"
  }
}

run "an_image_without_a_version_is_refused" {
  command = plan
  variables {
    image = "leveret:latest"
  }
  expect_failures = [var.image]
}

run "a_password_in_the_url_is_refused" {
  command = plan
  variables {
    store = "postgresql://leveret:word@db/leveret?sslmode=verify-full&sslrootcert=/etc/leveret/storage-tls/ca.crt"
  }
  expect_failures = [var.store]
}

run "a_password_in_the_url_of_redis_is_refused" {
  command = plan
  variables {
    redis = "rediss://:word@cache:6379/0"
  }
  expect_failures = [var.redis]
}

run "a_single_node_is_refused" {
  command = plan
  variables {
    replicas = 1
  }
  expect_failures = [var.replicas]
}

run "a_database_whose_certificate_is_not_checked_is_refused" {
  command = plan
  variables {
    store = "postgresql://leveret@db/leveret?sslmode=require"
  }
  expect_failures = [var.store]
}

run "etcd_without_tls_is_refused" {
  command = plan
  variables {
    etcd = ["https://etcd-0:2379", "http://etcd-1:2379"]
  }
  expect_failures = [var.etcd]
}

run "redis_without_tls_is_refused" {
  command = plan
  variables {
    redis = "redis://cache:6379/0"
  }
  expect_failures = [var.redis]
}
