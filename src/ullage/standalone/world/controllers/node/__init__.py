"""The one Node."""
