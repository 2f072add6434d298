"""CustomResourceDefinitions (`definitions`) from API types (`schemas`) and their docstrings (`docstrings`)."""
