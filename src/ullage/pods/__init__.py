"""What is known of pods in general: `resources`, what one asks for and may use at most."""
