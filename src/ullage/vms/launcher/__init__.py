"""The pod in which KubeVirt runs a VM, container by container. `pod.launcher_pod()` gives the limits and the requests of each,
and their sums as a core ResourceQuota counts them; `versions` has the numbers of each version of KubeVirt, `settings` what a
cluster and a namespace add."""
