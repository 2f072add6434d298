"""The catalogue of machine sizes, on a seed: `refresh` asks providers."""
