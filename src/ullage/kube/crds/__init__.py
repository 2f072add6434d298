"""CustomResourceDefinitions from API types and their docstrings."""
