"""What requests and answers of predictions look like; the API's description is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

TopK = Annotated[int, Field(ge=1, le=1000, description="How many classes a row, best first.")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
ClassName = Annotated[str, Field(min_length=1)]
Group = Literal["all", "seen", "unseen"]
_STRICT = ConfigDict(extra="forbid", strict=True)


class PredictRequest(BaseModel):
    """Feature vectors to classify."""

    model_config = _STRICT
    features: list[list[Finite]] = Field(
        min_length=1, description="One row an instance; as many numbers a row as the model reads."
    )
    top_k: TopK = 1
    among: Group | Annotated[list[ClassName], Field(min_length=1)] = Field(
        default="all", description="The candidates: a group, or a list of class names."
    )
    explain: bool = Field(default=False, description="Whether to say why, for each row.")


class Ranked(BaseModel):
    """A class and its score."""

    label: str
    seen: bool = Field(description="Whether the class was learned from instances.")
    score: float = Field(description="Higher is better.")


class Pull(BaseModel):
    """A seen class and what it adds to the score."""

    label: str
    weight: float


class Evidence(BaseModel):
    """An attribute of the predicted class and what it adds to the score."""

    name: str = Field(description="Its name; its position where the model has no names.")
    value: float
    weight: float = Field(
        description="Score minus the score were this attribute at the mean of the seen classes."
    )


class Explanation(BaseModel):
    """Why an instance was given its class."""

    margin: float | None = Field(
        description="Score minus that of the next candidate; null where there is none."
    )
    pulls: list[Pull]
    attributes: list[Evidence]


class Prediction(Ranked):
    """The best class of one row."""

    top: list[Ranked] = Field(description="The best classes, the predicted one first.")
    explanation: Explanation | None = None


class PredictResponse(BaseModel):
    """Predictions, one a row, all made with the classes of one revision."""

    revision: int
    predictions: list[Prediction]


class Pixels(BaseModel):
    """How a feature vector is an image."""

    height: int
    width: int
    maximum: float


class Accepts(BaseModel):
    """What the model reads: descriptions of classes, and instances."""

    vector: bool
    attributes: bool
    text: bool
    images: bool
    pixels: Pixels | None


class Limits(BaseModel):
    """The most that one request may carry."""

    rows: int
    explained_rows: int
    classes: int
    body_bytes: int
    images: int
    image_bytes: int
    image_pixels: int


class ModelCard(BaseModel):
    """What is served."""

    name: str
    method: str
    hgkt_version: str
    n_features: int
    n_attributes: int
    n_classes: int
    n_seen_classes: int
    n_added_classes: int
    revision: int
    attribute_names: list[str] | None
    attribute_blocks: list[int] | None
    attribute_ranges: list[tuple[float, float]] | None = Field(
        description="Lowest and highest value of each attribute over the seen classes."
    )
    accepts: Accepts
    explains: bool
    needs_key: bool
    n_samples: int
    limits: Limits
    about: dict[str, Any]
    parameters: dict[str, Any]


class Point(BaseModel):
    """A class on the map."""

    name: str
    seen: bool
    x: float
    y: float


class MapResponse(BaseModel):
    """Classes on two principal components of the seen classes."""

    revision: int
    method: str
    explained: tuple[float, float] = Field(
        description="Share of the seen classes' variance along each axis."
    )
    points: list[Point]


class Sample(BaseModel):
    """An instance to try."""

    id: str
    label: str
    seen: bool
    thumbnail: str | None = Field(description="A data URI, or null.")


class SamplesResponse(BaseModel):
    """Instances to try."""

    samples: list[Sample]


class SampleFeatures(BaseModel):
    """One instance with its feature vector."""

    id: str
    label: str
    features: list[float]


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """The service can predict, and its registry answers."""

    status: Literal["ready"]
    revision: int
