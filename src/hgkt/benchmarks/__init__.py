"""Measurements behind the claims, one module per claim: `run(quick)` returns plain data."""
