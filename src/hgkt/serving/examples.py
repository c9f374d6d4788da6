"""Commands that try each endpoint, written for the model that is served."""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import quote

from hgkt.estimators import GZSLClassifier
from hgkt.serving.class_facts import attribute_names
from hgkt.serving.editions import made_with
from hgkt.serving.key_wall import is_open
from hgkt.serving.settings import KeyGuards

_SHOWN = 64  # numbers that still fit a command; longer rows come from a file
_JSON = "-H 'Content-Type: application/json'"
_KEY = "-H 'X-API-Key: YOUR-KEY'"


def curl_examples(
    model: GZSLClassifier, name: str, address: str, key_guards: KeyGuards
) -> dict[tuple[str, str], str]:
    """Return a curl command per endpoint, by method and path.

    Parameters
    ----------
    model : GZSLClassifier
        The model that is served: the commands name a class of it and have rows of its width.
    name : str
        Its name.
    address : str
        Where the service answers, without a slash at the end.
    key_guards : {"nothing", "changes", "all"}
        What needs an API key.
    """
    seen = quote(str(model.seen_classes_.tolist()[0]), safe="")
    key = f" {_KEY}" if key_guards == "changes" else ""

    def at(path: str) -> str:
        always = f" {_KEY}" if key_guards == "all" and not is_open(path) else ""
        return f"curl {shlex.quote(address + path)}{always}"

    def send(path: str, body: dict[str, Any], n_numbers: int, file: str, options: str = "") -> str:
        text = json.dumps(body)
        if n_numbers <= _SHOWN:
            return f"{at(path)} {_JSON}{options} \\\n  -d {shlex.quote(text)}"
        shape = text.replace(json.dumps([0.0] * n_numbers), f"[… {n_numbers} numbers …]")
        return f"# {file}: {shape}\n{at(path)} {_JSON}{options} -d @{file}"

    width = model.n_features_in_
    rows = {"features": [[0.0] * width], "top_k": 3}
    own = f"/v2/models/{quote(name, safe='')}"
    tensor = {"name": "features", "shape": [1, width], "datatype": "FP32", "data": [0.0] * width}
    infer = {"inputs": [tensor]}
    described, n_described = _description(model)
    new = {"classes": [{"name": "my class", **described}]}
    return {
        ("get", "/health"): at("/health"),
        ("get", "/ready"): at("/ready"),
        ("get", "/metrics"): at("/metrics"),
        ("get", "/v1/model"): at("/v1/model"),
        ("get", "/v1/map"): at("/v1/map"),
        ("get", "/v1/samples"): at("/v1/samples"),
        ("get", "/v1/samples/{sample_id}"): at("/v1/samples/0"),
        ("get", "/v1/classes"): at("/v1/classes?kind=added&newest_first=true"),
        ("post", "/v1/classes"): send("/v1/classes", new, n_described, "class.json", key),
        ("get", "/v1/classes/{name}"): at(f"/v1/classes/{seen}"),
        ("patch", "/v1/classes/{name}"): send(
            "/v1/classes/my%20class", described, n_described, "edit.json", f"{key} -X PATCH"
        ),
        ("delete", "/v1/classes/{name}"): f"{at('/v1/classes/my%20class')} -X DELETE{key}",
        ("post", "/v1/classes/{name}/examples"): send(
            "/v1/classes/my%20class/examples",
            {"features": [[0.0] * width], "reason": "the first one came in"},
            width,
            "examples.json",
            key,
        ),
        ("post", "/v1/classes/check"): send("/v1/classes/check", new, n_described, "class.json"),
        ("get", "/v1/events"): at("/v1/events?after=0&limit=10"),
        ("post", "/v1/events/prune"): send("/v1/events/prune", {"before": 0}, 0, "", key),
        ("post", "/v1/rollback"): send(
            "/v1/rollback", {"revision": 0, "reason": "it was a trial"}, 0, "", key
        ),
        ("post", "/v1/predict"): send("/v1/predict", rows, width, "rows.json"),
        ("get", "/v2"): at("/v2"),
        ("get", "/v2/health/live"): at("/v2/health/live"),
        ("get", "/v2/health/ready"): at("/v2/health/ready"),
        ("get", "/v2/models/{model}"): at(own),
        ("get", "/v2/models/{model}/ready"): at(f"{own}/ready"),
        ("post", "/v2/models/{model}/infer"): send(f"{own}/infer", infer, width, "infer.json"),
        ("post", "/v1/predict/image"): f"{at('/v1/predict/image?top_k=3')} -F images=@photo.jpg",
    }


def _description(model: GZSLClassifier) -> tuple[dict[str, Any], int]:
    """Describe a class as the model wants it; and how many numbers that takes."""
    kinds = made_with(model).get("attribute_kinds") or ["att"]
    described: dict[str, Any] = {}
    if "text" in kinds:
        described["text"] = "What the class looks like, in a sentence."
    if set(kinds) == {"text"}:
        return described, 0
    places, names = attribute_names(model)
    if names:
        described["attributes"] = dict.fromkeys(names[:3], 1.0)
        return described, 0
    described["vector"] = [0.0] * len(places)
    return described, len(places)
