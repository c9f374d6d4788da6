"""What the service counts, as Prometheus reads it; one total over all worker processes."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The service's counters, histograms and gauges."""

    def __init__(self) -> None:
        # Several apps in one process, as in tests, must not share the global registry.
        registry = CollectorRegistry()
        labels = ("endpoint", "status")
        self.registry = registry
        self.requests = Counter("hgkt_requests", "Requests answered.", labels, registry=registry)
        self.seconds = Histogram(
            "hgkt_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("endpoint",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.predictions = Counter("hgkt_predictions", "Instances classified.", registry=registry)
        self.added = Counter("hgkt_classes_added", "Classes added.", registry=registry)
        self.removed = Counter("hgkt_classes_removed", "Classes removed.", registry=registry)
        self.edited = Counter("hgkt_classes_edited", "Classes edited.", registry=registry)
        self.examples = Counter("hgkt_examples", "Examples taken in.", registry=registry)
        self.rollbacks = Counter("hgkt_rollbacks", "Returns to a revision.", registry=registry)
        # Of several workers the one that looked last knows best.
        recent: Any = {"multiprocess_mode": "livemostrecent", "registry": registry}
        self.classes = Gauge("hgkt_classes", "Classes that can be predicted.", **recent)
        self.revision = Gauge("hgkt_revision", "Changes of the classes so far.", **recent)

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that was answered; there are as many endpoints as there are routes."""
        self.requests.labels(endpoint, f"{status // 100}xx").inc()
        self.seconds.labels(endpoint).observe(seconds)

    def exposition(self, n_classes: int, revision: int) -> bytes:
        """Return all values as text; those of all workers where there are several.

        Parameters
        ----------
        n_classes, revision : int
            The state of this worker.
        """
        self.classes.set(n_classes)
        self.revision.set(revision)
        if MULTIPROCESS_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)
        return generate_latest(together)
