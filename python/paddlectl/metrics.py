"""Lines of metrics, which `paddlectl status`, `report` and TensorBoard show (docs/trainer.md)."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Dict, Mapping

import numpy as np

from .errors import UsageError

_LINE_BYTES_MAX = 64 << 10
_KEYS_MAX = 256


def _plain(key: str, value: Any) -> Any:
    # Numbers, texts or lists of numbers; arrays and numbers of numpy and torch become such.
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    array = np.asarray(value)
    if array.ndim > 1 or array.dtype.kind not in "biuf":
        raise UsageError(
            f"the metric '{key}' is {value!r}", "metrics are numbers, texts or lists of numbers"
        )
    return array.tolist()


class MetricsFile:
    """The file PADDLE_INIT_METRICS. Without that variable, lines are checked and dropped."""

    def __init__(self) -> None:
        self._path = os.environ.get("PADDLE_INIT_METRICS", "")
        self._line_at = time.monotonic()
        self._line_samples = 0

    def write(self, kind: str, place: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Appends a line. `values` win over `place`, which has the position in training."""
        line: Dict[str, Any] = {"kind": kind, **place}
        line.update((key, _plain(key, value)) for key, value in values.items())
        line["unix_ms"] = int(time.time() * 1000)
        text = json.dumps(line).encode() + b"\n"
        if len(line) > _KEYS_MAX or len(text) > _LINE_BYTES_MAX:
            raise UsageError(
                f"a line of metrics has {len(line)} keys and {len(text)} bytes",
                f"at most {_KEYS_MAX} keys and {_LINE_BYTES_MAX} bytes",
            )
        if not self._path:
            return
        with open(self._path, "ab", buffering=0) as file:
            file.write(text)

    def rate(self, samples: int) -> float:
        """Examples per second since the last call, from the examples of the pass so far."""
        now = time.monotonic()
        new = samples - self._line_samples if samples >= self._line_samples else samples
        seconds = max(now - self._line_at, 1e-9)
        self._line_at, self._line_samples = now, samples
        return new / seconds
