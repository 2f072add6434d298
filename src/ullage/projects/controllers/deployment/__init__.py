"""Controllers of MachineDeployments, in the cluster that has them."""
