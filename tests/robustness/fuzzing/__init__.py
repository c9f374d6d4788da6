"""A real service, what is sent to it, and what it costs meanwhile."""
