"""An ensemble that several rooms try."""

MEMBERS = [
    {"feature_map": "sqrt+l2", "shrinkage": 0.3, "weight": 2.0},
    {"feature_map": "sqrt+l2", "shrinkage": 0.3, "kernel": "linear", "norm_power": 1.2},
    {"feature_map": "l2", "shrinkage": 0.5, "ridge": 0.3, "observed": True, "weight": 0.5},
]
