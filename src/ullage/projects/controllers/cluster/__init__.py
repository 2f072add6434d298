"""User clusters, on the seed that runs their control plane: `usage` says what their machines take."""
