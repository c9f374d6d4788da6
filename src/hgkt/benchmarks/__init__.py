"""Measurements behind the claims, one module a claim: `run(quick)` returns plain data."""
