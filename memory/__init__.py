"""Memory: what was true, and when we knew it."""
