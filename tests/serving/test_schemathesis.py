"""Requests made from the API's own description: none breaks it, all answers are documented."""

from __future__ import annotations

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    ignored_auth,
    positive_data_acceptance,
    unsupported_method,
)

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.serving import ServiceSettings, create_app

pytestmark = pytest.mark.endure

BOUNDED = settings(
    max_examples=10,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


KEY = "a key of some length"
# Read when the test runs: making requests takes seconds, in every worker that collects tests.
schema = schemathesis.pytest.from_fixture("described")


@pytest.fixture
def described(request, app):
    request.node._nodeid = request.node.nodeid  # what schemathesis reads; pytest 9.2 has no such
    return schemathesis.openapi.from_dict(app.openapi())


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))
    folder = model.save(
        tmp_path_factory.mktemp("fuzzed") / "digits", attribute_names=list(data.attribute_names)
    )
    settings = ServiceSettings(
        folder, api_keys=(KEY,), samples="digits", allowed_hosts=("testserver",)
    )
    app = create_app(settings)
    with TestClient(app):
        yield app


@schema.parametrize()
@BOUNDED
def test_api_answers_as_it_is_described(case, app):
    # What a body must hold depends on the model, of which the description knows nothing.
    # Whether a key is needed is asked by a second request, which must go over a network.
    # A valid key may be one that another request had.
    keyed = any(name.lower() == "idempotency-key" for name in case.headers or ())
    excluded = [ignored_auth]
    if case.path.startswith(("/v1/classes/{name}/", "/v1/classes/check")):
        # A class may be called "x/examples" or "check".
        excluded += [unsupported_method, allow_header_conformance]
    if case.operation.body or keyed:
        excluded.append(positive_data_acceptance)
    case.call_and_validate(app=app, headers={"X-API-Key": KEY}, excluded_checks=excluded)
