"""What is refused when it is created: `hooks` ask the API what they need; why not is in `eligibility`."""
