"""Time an epoch on the quotient against one on drawn neighbours; print the result as JSON."""

import json
import sys

from hgkt.benchmarks.train import run

if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=2))
