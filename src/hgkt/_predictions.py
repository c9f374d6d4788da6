"""The question and the answer of a prediction over HTTP, as service and client both have them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

GROUPS = ("all", "seen", "unseen")
Share = Annotated[float, Meta(gt=0, lt=1)]


class Question(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True):
    """What is asked of some rows: the fields of a JSON body beside its rows, or of a query."""

    top_k: Annotated[
        int, Meta(ge=1, le=1000, description="How many classes per row, best first.")
    ] = 1
    among: Annotated[
        Literal["all", "seen", "unseen"]
        | Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)],
        Meta(description="The candidates: a group, or a list of class names."),
    ] = "all"
    explain: Annotated[bool, Meta(description="Whether to say why, for each row.")] = False
    confidence: Annotated[
        bool, Meta(description="Whether to say how sure each answer is: probability and novelty.")
    ] = False
    reject: Annotated[
        Share | None,
        Meta(
            description="Share of rows of known classes that may be rejected by mistake; the "
            "label of a row that looks like no known class is then null."
        ),
    ] = None
    coverage: Annotated[
        Share | None, Meta(description="How often `set` is to hold the true class.")
    ] = None
    revision: Annotated[
        Annotated[int, Meta(ge=0, le=2**62)] | None,
        Meta(description="Answer with the classes of this revision, as they were then."),
    ] = None

    @property
    def asks_confidence(self) -> bool:
        """Whether it is asked how sure answers are."""
        return self.confidence or self.reject is not None or self.coverage is not None


class Ranked(Struct):
    """A class and its score."""

    label: str
    seen: Annotated[bool, Meta(description="Whether the class was learned from instances.")]
    score: Annotated[float, Meta(description="Higher is better.")]
    probability: Annotated[
        float | UnsetType,
        Meta(description="How likely the class is, where `confidence` was asked for."),
    ] = UNSET


class Pull(Struct):
    """A seen class and what it adds to the score."""

    label: str
    weight: float


class Evidence(Struct):
    """An attribute of the predicted class and what it adds to the score."""

    name: Annotated[str, Meta(description="Its name; its position where the model has no names.")]
    value: float
    weight: Annotated[
        float,
        Meta(
            description="Score minus the score were this attribute at the mean of the seen "
            "classes; for an attribute with a complement (`tail`, `no tail`) that of both."
        ),
    ]


class Explanation(Struct):
    """Why an instance was given its class."""

    margin: Annotated[
        float | None,
        Meta(description="Score minus that of the next candidate; null where there is none."),
    ]
    pulls: list[Pull]
    attributes: list[Evidence]
    place: Annotated[
        tuple[float, float] | None,
        Meta(
            description="Where the instance lies on the map of `/v1/map`; null where that is "
            "unknown."
        ),
    ]


class Prediction(Struct):
    """The best class of one row; label, seen and score are null where the row was rejected."""

    label: str | None
    seen: bool | None
    score: float | None
    top: Annotated[list[Ranked], Meta(description="The best classes, the predicted one first.")]
    probability: float | UnsetType = UNSET
    novelty: Annotated[
        float | UnsetType,
        Meta(description="Share of rows of known classes that look less strange, 0 to 1."),
    ] = UNSET
    set: Annotated[
        list[str] | UnsetType | None,
        Meta(description="Classes among which the true one is, where `coverage` was given."),
    ] = UNSET
    explanation: Explanation | None = None


class Predictions(Struct):
    """Predictions, one per row, all made with the classes of one revision."""

    revision: int
    predictions: list[Prediction]
