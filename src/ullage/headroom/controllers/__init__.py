"""What keeps the shares of namespaces true."""
