"""Fills MachineCatalogues in the background, with the credentials of the clusters that use them, and takes unused ones away."""
