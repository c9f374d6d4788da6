"""Time adding a class to fitted models; print the result as JSON."""

import json
import sys

from hgkt.benchmarks.add_class import run

if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=2))
