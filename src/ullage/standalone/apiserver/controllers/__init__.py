"""What the server does on its own when objects change: garbage collection, the end of namespaces, CRDs."""
