"""Controllers by kind: quotas and clusters, Machines and deployments in user clusters, and the catalogue of sizes."""
