"""The gRPC server of the embedded engines: Longhorn's services and our own, for the volumes of one block store."""
