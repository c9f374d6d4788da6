"""Time the closed-form fit beside its peers; print the result as JSON."""

import json
import sys

from hgkt.benchmarks.fit import run

if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=2))
