"""What the machines of a cluster take, in the status of the Cluster."""
