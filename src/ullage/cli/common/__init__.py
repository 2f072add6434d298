"""What commands share: the shell, options and arguments, a session with a cluster, words and tables."""
