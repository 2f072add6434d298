"""`ullage up`: everything that Ullage needs of a cluster, on one machine."""
