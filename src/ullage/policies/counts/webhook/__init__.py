"""What is said to who does not fit."""
