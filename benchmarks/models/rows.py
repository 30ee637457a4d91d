"""The rows of the tables: which model in which shape of program, and what is aimed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A model in a shape of program, and the ratios to TensorFlow that are aimed at.

    Attributes:
      hot: for the median of a hot step.
      cold, cached: for the time of the first 100 steps, with nothing compiled before and with all
        that an earlier process compiled; None where nothing is aimed at.
    """

    model: str
    shape: str
    hot: float
    cold: float | None = 1.2
    cached: float | None = 0.8

    @property
    def has_bare(self) -> bool:
        """Whether bare jax does the same: not in other processes, nor for some rows of tables."""
        return self.shape == "session" and self.model != "recommender"

    @property
    def title(self) -> str:
        """Its name on the command line and in the tables."""
        return f"{self.model} {self.shape}"


ROWS = (
    Row("cnn", "session", 1.0), Row("cnn", "function", 1.0), Row("cnn", "ps", 0.7),
    Row("transformer", "session", 0.95), Row("transformer", "function", 0.95),
    Row("transformer", "ps", 0.7),
    Row("lstm", "session", 0.4, 1.2, 0.5), Row("lstm", "function", 0.4, 1.2, 0.5),
    Row("lstm", "ps", 0.4, 1.2, 0.5),
    Row("recommender", "session", 0.8, 1.2, 0.7), Row("recommender", "function", 0.5, 1.2, 0.7),
    Row("recommender", "ps", 0.6, 1.2, 0.7),
    Row("lenet", "session", 1.0), Row("lenet", "function", 1.0), Row("lenet", "ps", 0.7),
    Row("resnet20", "session", 1.0), Row("resnet20", "function", 1.0), Row("resnet20", "ps", 0.7),
    Row("small-mlp", "eager", 0.3, None, None),
    Row("small-mlp", "ps", 0.4, 0.8, 0.8), Row("big-mlp", "ps", 0.5, 0.8, 0.8),
    Row("small-mlp", "in-worker", 0.35, 0.8, 0.8), Row("big-mlp", "in-worker", 0.5, 0.8, 0.8),
    Row("loop", "session", 0.05, 0.3, 0.3), Row("chain", "session", 0.1, 0.5, 0.5),
)  # fmt: skip


def chosen(texts: Sequence[str]) -> list[Row]:
    """Return the rows whose title holds one of the texts, or all without any.

    Raises:
      SystemExit: there is none.
    """
    found = [row for row in ROWS if not texts or any(text in row.title for text in texts)]
    if not found:
        raise SystemExit(f"no row is named {' or '.join(texts)}: see --list")
    return found
