"""VirtualMachineInstanceMigrations: an instance goes from one node to another, within what KubeVirt's configuration allows."""
