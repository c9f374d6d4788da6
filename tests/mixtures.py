"""A mixture that several rooms try."""

MIXTURE = {
    "metrics": [
        {"feature_map": "sqrt+l2", "shrinkage": 0.3, "weight": 2.0},
        {"feature_map": "sqrt+l2", "shrinkage": 0.9, "weight": 1.0},
        {"feature_map": "l2", "shrinkage": 0.5, "weight": 1.0},
    ],
    "kernels": [{"kernel": "rbf"}, {"kernel": "linear"}],
    "ridges": [{"ridge": 0.03, "weight": 1.0}],
}
