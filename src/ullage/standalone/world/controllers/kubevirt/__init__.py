"""What virt-operator does: it says in the status of the KubeVirt object which version runs."""
