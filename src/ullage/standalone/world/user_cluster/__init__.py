"""The world of a user cluster: machine-controller is played there, and nothing else."""
