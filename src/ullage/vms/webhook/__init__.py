"""What is refused when it is created: `rules` say why not, `hooks` ask the API what they need."""
