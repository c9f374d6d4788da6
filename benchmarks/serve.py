"""Measure the service beside the estimator; print the result as JSON."""

import json
import sys

from hgkt.benchmarks.serve import run

if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=2))
