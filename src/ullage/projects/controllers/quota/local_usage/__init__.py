"""What the clusters of a project use on one seed."""
