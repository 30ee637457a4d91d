"""Functions that sample classes for losses over very many of them, and find accidental hits.

Source: tensorflow/python/ops/candidate_sampling_ops.py.
"""

from __future__ import annotations

from typing import Any

from tideflow.graph.building import apply_op, convert_to_tensor
from tideflow.graph.graph import Tensor
from tideflow.graph.types import TensorLike
from tideflow.ops.export import export
from tideflow.ops.framework import get_seed
from tideflow.ops.nn.candidate_samplers import make_sampler
from tideflow.wire import dtypes


@export("nn.log_uniform_candidate_sampler", "random.log_uniform_candidate_sampler")
def log_uniform_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Draw candidates in [0, range_max), small numbers the likelier.

    Class k is drawn with the probability log((k + 2) / (k + 1)) / log(range_max + 1): it fits
    classes that are numbered by falling frequency, as words of a vocabulary often are.

    Args:
      true_classes: int64 [batch, num_true].
      num_true: how many true classes an example has, an int.
      num_sampled: how many candidates to draw, an int.
      unique: whether candidates all differ; num_sampled is then at most range_max.
      range_max: how many classes there are, an int.
      seed: an int, for the same draws in each run of the program.
    Returns: candidates [num_sampled] (int64), and how often the true classes [batch, num_true] and
      the candidates [num_sampled] are to be expected among them (float32).
    Raises: InvalidArgumentError for true classes of another shape or outside the range, and for
      more unique candidates than
      classes.
    Example:
      >>> sampled = tf.random.log_uniform_candidate_sampler(
      ...     [[0], [4]], num_true=1, num_sampled=5, unique=True, range_max=5, seed=1)
      >>> drawn, of_true, of_drawn = tf.Session().run(sampled)
      >>> sorted(drawn.tolist()), of_true.shape, of_drawn.shape
      ([0, 1, 2, 3, 4], (2, 1), (5,))
    """
    return make_sampler(
        "LogUniformCandidateSampler",
        true_classes,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        seed=seed,
    )


@export("nn.uniform_candidate_sampler", "random.uniform_candidate_sampler")
def uniform_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Draw candidates in [0, range_max), all equally likely.

    Args:
      true_classes: int64 [batch, num_true].
      num_true: how many true classes an example has, an int.
      num_sampled: how many candidates to draw, an int.
      unique: whether candidates all differ; num_sampled is then at most range_max.
      range_max: how many classes there are, an int.
      seed: an int, for the same draws in each run of the program.
    Returns: candidates [num_sampled] (int64), and how often the true classes [batch, num_true] and
      the candidates [num_sampled] are to be expected among them (float32).
    Raises: InvalidArgumentError for true classes of another shape or outside the range, and for
      more unique candidates than
      classes.
    Example:
      >>> sampled = tf.random.uniform_candidate_sampler(
      ...     [[0], [4]], num_true=1, num_sampled=2, unique=False, range_max=8, seed=1)
      >>> drawn, of_true, of_drawn = tf.Session().run(sampled)
      >>> of_true.tolist(), of_drawn.tolist()
      ([[0.25], [0.25]], [0.25, 0.25])
    """
    return make_sampler(
        "UniformCandidateSampler",
        true_classes,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        seed=seed,
    )


@export("nn.fixed_unigram_candidate_sampler", "random.fixed_unigram_candidate_sampler")
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Any = (),
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Draw candidates in [0, range_max), as likely as given weights say.

    Args:
      true_classes: int64 [batch, num_true].
      num_true: how many true classes an example has, an int.
      num_sampled: how many candidates to draw, an int.
      unique: whether candidates all differ; num_sampled is then at most range_max.
      range_max: how many classes there are, an int.
      vocab_file: lines whose last column (after a comma) is a weight; or `unigrams`, the weights.
      distortion: the power to which weights are raised.
      num_reserved_ids: so many first classes have no weight; the others together are range_max.
      num_shards, shard: ints, to draw only among every num_shards-th class, beginning with `shard`.
      unigrams: the weights, a list of floats, where there is no vocab_file.
      seed: an int, for the same draws in each run of the program.
    Returns: candidates [num_sampled] (int64), and how often the true classes [batch, num_true] and
      the candidates [num_sampled] are to be expected among them (float32).
    Raises: InvalidArgumentError for true classes of another shape or outside the range, weights
      given in both ways or neither, and another number of weights;
      NotFoundError for a file that is not there.
    Example:
      >>> drawn, of_true, _ = tf.random.fixed_unigram_candidate_sampler(
      ...     [[0, 1]], num_true=2, num_sampled=4, unique=False, range_max=3,
      ...     unigrams=[3.0, 1.0, 0.0], seed=1)
      >>> of_true.numpy().tolist(), 2 in drawn.numpy()
      ([[3.0, 1.0]], False)
    """
    return make_sampler(
        "FixedUnigramCandidateSampler",
        true_classes,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
        seed=seed,
    )


@export("nn.all_candidate_sampler", "random.all_candidate_sampler")
def all_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Return all classes as candidates, to compare a sampled loss with one that leaves out nothing.

    Args:
      true_classes: int64 [batch, num_true].
      num_true: how many true classes an example has, an int.
      num_sampled: how many classes there are, an int.
      unique: True; all classes differ.
      seed: accepted; nothing is drawn.
    Returns: candidates [num_sampled] (int64), and how often the true classes [batch, num_true] and
      the candidates [num_sampled] are to be expected among them (float32): once.
    Raises: InvalidArgumentError for true classes of another shape.
    Example:
      >>> drawn, of_true, of_drawn = tf.random.all_candidate_sampler(
      ...     [[0], [2]], num_true=1, num_sampled=3, unique=True)
      >>> drawn.numpy().tolist(), of_true.numpy().tolist(), of_drawn.numpy().tolist()
      ([0, 1, 2], [[1.0], [1.0]], [1.0, 1.0, 1.0])
    """
    return make_sampler(
        "AllCandidateSampler",
        true_classes,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        seed=seed,
    )


@export("nn.compute_accidental_hits")
def compute_accidental_hits(
    true_classes: TensorLike,
    sampled_candidates: TensorLike,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Find the candidates that are true classes of an example.

    Args:
      true_classes: int64 [batch, num_true].
      sampled_candidates: int64 [num_sampled], what a sampler gave.
      num_true: how many true classes an example has, an int.
      seed: accepted; nothing is drawn.
    Returns: for each of n hits its example (int32 [n]), its place in sampled_candidates (int64 [n])
      and the least float32 ([n]), which added to a logit takes the candidate out of a softmax.
    Raises: InvalidArgumentError for true classes of another shape.
    Example:
      >>> examples, places, weights = tf.nn.compute_accidental_hits(
      ...     true_classes=[[7], [9]], sampled_candidates=[9, 8, 7], num_true=1)
      >>> examples.numpy().tolist(), places.numpy().tolist()
      ([0, 1], [2, 0])
    """
    first, second = get_seed(seed)
    given = convert_to_tensor(true_classes, dtypes.int64)
    return tuple(
        apply_op(
            "ComputeAccidentalHits",
            given,
            sampled_candidates,
            num_true=num_true,
            seed=first,
            seed2=second,
            name=name,
        )
    )
