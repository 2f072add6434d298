"""Ullage beside real programs of other projects, which Go builds once: KubeVirt, machine-controller, external-provisioner."""
