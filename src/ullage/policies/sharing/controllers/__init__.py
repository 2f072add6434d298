"""One controller: share/grant."""
