"""What is to be done, as pure functions of what is there."""
