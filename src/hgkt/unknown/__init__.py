"""From rows that fit no known class to classes: groups among them, and what to label next."""

from __future__ import annotations

from hgkt.unknown.groups import Group, Neighbour, find_groups
from hgkt.unknown.suggestions import Suggestion, suggest

__all__ = ["Group", "Neighbour", "Suggestion", "find_groups", "suggest"]
