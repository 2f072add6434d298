"""VirtualMachines of KubeVirt: each has an instance while it is to run."""
