"""The service's routes: one module per family of endpoints, with the shapes that it answers in."""
