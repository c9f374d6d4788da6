"""Dockerfile, compose file, manifests and rules: linted, and true of the service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.serving import ServiceSettings, create_app

pytestmark = pytest.mark.endure

BIN = Path(sys.executable).parent
STOPPING = 15  # seconds that the service takes at most to end, by its own defaults


def lint(tool, *arguments):
    """Run a linter of this environment; return what it complains of."""
    program = shutil.which(tool, path=f"{BIN}:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip(f"{tool} is not installed; the extra lint brings it")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def load(path):
    return yaml.safe_load(path.read_text())


# ---------------------------------------------------------------------- Dockerfile
@pytest.fixture(scope="module")
def steps(deploy):
    parse = pytest.importorskip("dockerfile_parse", reason="the extra test brings it")
    found = parse.DockerfileParser(str(deploy / "Dockerfile")).structure
    return [(step["instruction"], step["value"]) for step in found]


def test_dockerfile_is_linted(deploy):
    assert lint("hadolint", deploy / "Dockerfile") == ""


def test_dockerfile_ends_as_an_ordinary_user_with_a_health_check(steps, serve_options):
    said = dict(steps)  # of instructions that come twice, the last
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", said["USER"])
    assert sum(name == "FROM" for name, _ in steps) == 2
    check = json.loads(said["HEALTHCHECK"].partition(" CMD ")[2])
    assert "/health" in check[-1]
    entry = json.loads(said["ENTRYPOINT"]) + json.loads(said["CMD"])
    assert entry[:2] == ["hgkt", "serve"]
    options = serve_options(entry[2:])
    assert options["port"] == said["EXPOSE"]
    assert options["api_key_file"].startswith("/run/secrets/")


def test_nothing_goes_into_the_context_but_what_is_copied(deploy, steps):
    lines = (deploy.parent / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    kept = {line[1:] for line in lines if line.startswith("!")}
    copied = [value.split()[:-1] for name, value in steps if name == "COPY" and "--" not in value]
    assert kept == {source for sources in copied for source in sources}


# ---------------------------------------------------------------------- compose
def test_compose_file_fits_its_schema(deploy):
    assert (
        lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", deploy / "compose.yaml")
        == ""
    )


def test_compose_waits_for_a_healthy_database_and_reads_secrets_from_files(deploy, serve_options):
    document = load(deploy / "compose.yaml")
    service, database = document["services"]["service"], document["services"]["database"]
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert "pg_isready" in database["healthcheck"]["test"]
    assert all(set(secret) == {"file"} for secret in document["secrets"].values())
    used = set(service["secrets"]) | set(database["secrets"])
    assert used == set(document["secrets"])
    options = serve_options(service["command"])
    for name in ("api_key_file", "database_file"):
        assert options[name].removeprefix("/run/secrets/") in service["secrets"]
    password = database["environment"]["POSTGRES_PASSWORD_FILE"]
    assert password.removeprefix("/run/secrets/") in database["secrets"]
    assert service["read_only"] is True
    assert service["volumes"][0]["read_only"] is True
    assert int(service["stop_grace_period"].rstrip("s")) > STOPPING
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    dockerfile = (deploy / service["build"]["context"] / service["build"]["dockerfile"]).resolve()
    assert dockerfile == (deploy / "Dockerfile").resolve()


# ---------------------------------------------------------------------- Kubernetes
@pytest.fixture(scope="module")
def manifests(deploy):
    found = [load(path) for path in sorted((deploy / "kubernetes").glob("*.yaml"))]
    return {document["kind"]: document for document in found}


def test_manifests_fit_their_schemas(deploy):
    for path in sorted((deploy / "kubernetes").glob("*.yaml")):
        assert lint("kubernetes-validate", "--strict", path) == ""


def test_manifests_fit_each_other(manifests, serve_options):
    pod = manifests["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert manifests["Service"]["spec"]["selector"] == labels
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert manifests[kind]["spec"]["selector"]["matchLabels"] == labels
    (container,) = pod["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    assert manifests["Service"]["spec"]["ports"][0]["targetPort"] in ports
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["spec"]["volumes"]}
    options = serve_options(container["args"])
    for name in ("api_key_file", "database_file"):
        folder, _, key = options[name].rpartition("/")
        assert folder == mounts["secrets"]
        assert key in manifests["Secret"]["stringData"]
    assert manifests["Secret"]["metadata"]["name"] == "hgkt"
    budget = manifests["PodDisruptionBudget"]["spec"]["minAvailable"]
    assert budget < manifests["Deployment"]["spec"]["replicas"]


def test_pods_are_probed_given_time_and_locked_down(manifests):
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert paths == {
        "startupProbe": "/health",
        "readinessProbe": "/ready",
        "livenessProbe": "/health",
    }
    assert pod["terminationGracePeriodSeconds"] > STOPPING
    assert pod["securityContext"]["runAsNonRoot"] is True
    secure = container["securityContext"]
    assert secure["readOnlyRootFilesystem"] is True
    assert secure["allowPrivilegeEscalation"] is False
    assert secure["capabilities"]["drop"] == ["ALL"]
    assert {"requests", "limits"} <= container["resources"].keys()
    assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_image_and_user_are_the_same_everywhere(deploy, manifests, steps):
    pod = manifests["Deployment"]["spec"]["template"]["spec"]
    composed = load(deploy / "compose.yaml")["services"]["service"]["image"]
    assert pod["containers"][0]["image"] == composed
    context = pod["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == dict(steps)["USER"]


# ---------------------------------------------------------------------- Prometheus
def test_alerts_speak_of_metrics_that_exist(deploy, tmp_path):
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier(calibration=0.0).fit(X, y, data.attributes_of(data.seen_classes))
    app = create_app(ServiceSettings(model.save(tmp_path / "digits")))
    with TestClient(app, base_url="http://localhost") as client:
        client.post("/v1/predict", json={"features": X[:1].tolist()})
        shown = client.get("/metrics").text
    names = set(re.findall(r"^(\w+)(?:\{| )", shown, re.MULTILINE))
    rules = load(deploy / "prometheus-alerts.yaml")["groups"][0]["rules"]
    assert len(rules) >= 4
    for rule in rules:
        used = set(re.findall(r"\bhgkt_\w+", rule["expr"]))
        assert used <= names, rule["alert"]
        assert rule["annotations"]["summary"]
        for endpoint in re.findall(r'endpoint="([^"]+)"', rule["expr"]):
            assert f'endpoint="{endpoint}"' in shown
