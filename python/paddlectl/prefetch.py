"""Pulls the rows of batches ahead of their use."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Callable, Deque, Dict, Iterable, Iterator, Mapping, Tuple, TypeVar

import numpy.typing as npt

from .errors import UsageError
from .rows import Rows

if TYPE_CHECKING:
    from .job import Handle, Job

B = TypeVar("B")


def prefetch(
    job: "Job",
    batches: Iterable[B],
    ids: Mapping[str, Callable[[B], npt.ArrayLike]],
    depth: int,
) -> Iterator[Tuple[B, Dict[str, Rows]]]:
    """Job.prefetch(). The sidecar pulls while the program computes, so no thread is needed here."""
    if depth < 0:
        raise UsageError(f"prefetch(depth={depth}): give 0 or more batches")
    return _pairs(job, batches, ids, depth)


def _pairs(
    job: "Job",
    batches: Iterable[B],
    ids: Mapping[str, Callable[[B], npt.ArrayLike]],
    depth: int,
) -> Iterator[Tuple[B, Dict[str, Rows]]]:
    ahead: Deque[Tuple[B, "Handle[Dict[str, Rows]]"]] = deque()
    for batch in batches:
        ahead.append((batch, job.pull_async({table: of(batch) for table, of in ids.items()})))
        if len(ahead) > depth:
            first, handle = ahead.popleft()
            yield first, handle.wait()
    while ahead:
        first, handle = ahead.popleft()
        yield first, handle.wait()
