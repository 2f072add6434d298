"""The HTTPS server that the API server asks before it stores something: decode, route to a slice's hook, encode."""
