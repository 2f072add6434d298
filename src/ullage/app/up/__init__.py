"""What `ullage up` composes: which processes run beside the API server, and the identities that they get."""
