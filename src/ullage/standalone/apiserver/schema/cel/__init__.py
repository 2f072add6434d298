"""CEL as Kubernetes uses it: programs, the added functions, loops whose cost is counted, values typed by a schema."""
