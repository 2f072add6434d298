"""Takes what groups ask for: all members, or none."""
