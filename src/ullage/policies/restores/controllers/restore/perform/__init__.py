"""Carries restores in place out. `rules` says what is next for one, and what its status says; `gathering` what it is about;
`controller` does it."""
