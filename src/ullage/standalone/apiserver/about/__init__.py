"""What the server tells of itself: discovery, OpenAPI, health, and the warnings that go with deprecated kinds."""
