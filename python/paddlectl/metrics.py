"""Lines of metrics, which `paddlectl status`, `report` and TensorBoard show (docs/trainer.md)."""

from __future__ import annotations

import json
import math
import os
import time
from typing import Any, Dict, Mapping

import numpy as np

from .errors import ResourceError, UsageError

_LINE_BYTES_MAX = 64 << 10
_KEYS_MAX = 256


def _plain(key: str, value: Any) -> Any:
    # Numbers, texts or lists of numbers; arrays and numbers of numpy and torch become such.
    if isinstance(value, (bool, int, float, str)) or value is None:
        return _finite(value)
    if hasattr(value, "detach"):  # a tensor that has a gradient
        value = value.detach()
    array = np.asarray(value)
    if array.ndim > 1 or array.dtype.kind not in "biuf":
        raise UsageError(
            f"the metric '{key}' is {value!r}", "metrics are numbers, texts or lists of numbers"
        )
    return _finite(array.tolist())


def _finite(value: Any) -> Any:
    # JSON has no NaN and no infinity.
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class MetricsFile:
    """The file PADDLE_INIT_METRICS. Without that variable, lines are checked and dropped."""

    def __init__(self) -> None:
        self._path = os.environ.get("PADDLE_INIT_METRICS", "")
        self._line_at = time.monotonic()
        self._line_samples = 0

    def line(self, kind: str, place: Mapping[str, Any], values: Mapping[str, Any]) -> bytes:
        """A line. `values` win over `place`, which has the position in training.

        UsageError: a value is of another type, or the line is too long.
        """
        line: Dict[str, Any] = {"kind": kind, **place}
        line.update((key, _plain(key, value)) for key, value in values.items())
        line["unix_ms"] = int(time.time() * 1000)
        text = json.dumps(line).encode() + b"\n"
        if len(line) > _KEYS_MAX or len(text) > _LINE_BYTES_MAX:
            raise UsageError(
                f"a line of metrics has {len(line)} keys and {len(text)} bytes",
                f"at most {_KEYS_MAX} keys and {_LINE_BYTES_MAX} bytes",
            )
        return text

    def append(self, line: bytes) -> None:
        """ResourceError: the file cannot be written."""
        if not self._path:
            return
        try:
            with open(self._path, "ab", buffering=0) as file:
                file.write(line)
        except OSError as error:
            raise ResourceError(
                f"cannot write a line of metrics to {self._path}: {error.strerror}",
                "make room on its disk",
            ) from None

    def write(self, kind: str, place: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Appends line()."""
        self.append(self.line(kind, place, values))

    def rate(self, samples: int) -> float:
        """Examples per second since the last call, from the examples of the pass so far."""
        now = time.monotonic()
        new = samples - self._line_samples if samples >= self._line_samples else samples
        seconds = max(now - self._line_at, 1e-9)
        self._line_at, self._line_samples = now, samples
        return new / seconds
