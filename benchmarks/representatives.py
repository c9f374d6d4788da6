"""Print the benchmark of the exact selection of representatives as JSON."""

import json

from hgkt.benchmarks.representatives import run

if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
