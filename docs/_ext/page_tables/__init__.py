"""The tables of README and docs, made from the records in docs/results."""
