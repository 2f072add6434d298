"""The only package that speaks to a Kubernetes API."""
