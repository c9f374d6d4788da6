"""The paper's ablations, and those that it leaves out."""
