"""Which files, functions and reconciles one request passes in the processes of `ullage up`."""
