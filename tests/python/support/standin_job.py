"""A job without a cluster: tables in this process, updated by plain SGD.

It has the part of paddlectl.Job that paddlectl.torch uses, and notes what happened."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np


class Rows:
    def __init__(self, table: str, values: Any, index: Any, ids: Any) -> None:
        self.table, self.values, self.index, self.ids = table, values, index, ids
        self.is_pushed = False


class Pushed:
    def __init__(self, apply: Callable[[], None]) -> None:
        self._apply: Optional[Callable[[], None]] = apply

    def wait(self) -> None:
        if self._apply is not None:
            self._apply()
        self._apply = None


class StandinJob:
    def __init__(self, widths: Mapping[str, int], rate: float = 0.1) -> None:
        self.tables = dict(widths)
        self.rate = rate
        self.rows: Dict[str, Dict[int, Any]] = {name: {} for name in widths}
        self.pulls: List[Tuple[str, List[int], str]] = []  # table, ids, absent
        # samples, cost, rows by table
        self.pushes: List[Tuple[int, Optional[float], Dict[str, int]]] = []
        self.resumed: Any = None  # paddlectl.Resumed
        self.saved: Optional[bytes] = None
        self.strategy = "sync"
        self.stop_asked = False
        self.refuses = False  # the next pushes

    def _refuse(self) -> None:
        raise ValueError("the push is refused")

    def row(self, table: str, id: int, absent: str = "seed") -> Any:
        if id in self.rows[table]:
            return self.rows[table][id]
        if absent == "zero":
            return np.zeros(self.tables[table], np.float32)
        seed = np.random.default_rng([id, len(table)])
        return (0.1 * seed.standard_normal(self.tables[table])).astype(np.float32)

    def pull(self, table: str, ids: Any, absent: str = "seed") -> Rows:
        found, index = np.unique(np.asarray(ids), return_inverse=True)
        self.pulls.append((table, found.tolist(), absent))
        values = np.stack([self.row(table, int(each), absent) for each in found])
        return Rows(table, values, index.reshape(np.shape(ids)).astype(np.int64), found)

    def push_async(self, gradients: Mapping[str, Any], samples: int,
                   cost: Optional[float] = None) -> Pushed:
        if self.refuses:
            return Pushed(self._refuse)
        kept = {}
        for table, pairs in gradients.items():
            for rows, gradient in pairs:
                assert rows.table == table and not rows.is_pushed
                assert gradient.dtype == np.float32 and gradient.shape == rows.values.shape
                rows.is_pushed = True
            kept[table] = [(rows, gradient.copy()) for rows, gradient in pairs]

        def apply() -> None:
            sums: Dict[str, Dict[int, Any]] = {table: {} for table in kept}
            for table, pairs in kept.items():
                for rows, gradient in pairs:
                    for id, each in zip(rows.ids.tolist(), gradient):
                        sums[table][id] = sums[table][id] + each if id in sums[table] else each
                for id, each in sums[table].items():
                    self.rows[table][id] = self.row(table, id) - np.float32(self.rate) * each
            self.pushes.append((samples, cost, {table: len(each) for table, each in sums.items()}))

        return Pushed(apply)

    def prefetch(self, batches: Iterable[Any], ids: Mapping[str, Callable[[Any], Any]],
                 depth: int = 1) -> Iterator[Tuple[Any, Dict[str, Rows]]]:
        waiting: List[Tuple[Any, Dict[str, Rows]]] = []
        for batch in batches:
            rows = {table: self.pull(table, function(batch)) for table, function in ids.items()}
            waiting.append((batch, rows))
            if len(waiting) > depth:
                yield waiting.pop(0)
        yield from waiting

    def save(self, state: bytes = b"") -> str:
        self.saved = state
        return "pass-00000"

    def go_back(self, why: str) -> None:
        raise ConnectionError(why)
