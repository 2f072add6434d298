"""VirtualMachineInstances of KubeVirt: what runs, as far as its volumes are concerned. No guest is ever run."""
