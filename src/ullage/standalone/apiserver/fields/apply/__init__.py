"""Server-side apply (merge): checks a configuration, merges it by the shape of the kind, and records what its manager owns."""
