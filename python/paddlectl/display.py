"""What a job shows in a notebook and on a terminal: a progress line, a table, a chart."""

from __future__ import annotations

import html
import importlib
import math
import shutil
import sys
import time
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

PLAIN_SECONDS = 10.0  # between two lines where none can be drawn over
POINTS_MAX = 500  # of a curve in a chart
CURVES_MAX = 8
ROWS_MAX = 64
LARGEST = 1e100  # of a coordinate in a chart

_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#17becf")


def one_line(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def escaped(value: object) -> str:
    """The value as text for HTML and SVG; None is empty."""
    return "" if value is None else html.escape(one_line(str(value)))


class ProgressLine:
    """One line that is drawn over: in the notebook's cell, or on the terminal (stderr).

    Elsewhere a line is printed every PLAIN_SECONDS.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._printed: Optional[float] = None
        self._is_notebook = _is_notebook()
        self._is_terminal = not self._is_notebook and sys.stderr.isatty()

    def show(self, text: str) -> None:
        text = one_line(text)
        if self._is_notebook:
            self._show_in_cell(text)
        elif self._is_terminal:
            columns = shutil.get_terminal_size().columns
            print(f"\r{text[: columns - 1]}\x1b[K", end="", file=sys.stderr, flush=True)
            self._printed = time.monotonic()
        elif self._printed is None or time.monotonic() - self._printed >= PLAIN_SECONDS:
            self.print(text)

    def print(self, text: str) -> None:
        """Shows the text as the last one."""
        if self._is_notebook:
            return self._show_in_cell(one_line(text))
        begin = "\r" if self._is_terminal else ""
        end = "\x1b[K\n" if self._is_terminal else "\n"
        print(begin + one_line(text), end=end, file=sys.stderr, flush=True)
        self._printed = time.monotonic()

    def _show_in_cell(self, text: str) -> None:
        data = {"text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _is_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def number_text(value: object) -> str:
    """Six significant digits at most; "" for anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def cost_of(line: Mapping[str, Any]) -> Optional[float]:
    """The newest cost of a line of metrics."""
    for key in ("current_cost", "cost"):
        if number_text(line.get(key)):
            return float(line[key])
    return None


def describe(line: Mapping[str, Any]) -> str:
    """A line of metrics in words: "pass 2/3, batch 40, cost 0.25, 900 examples/s"."""
    words: List[str] = []
    if isinstance(line.get("pass"), int):
        passes = f"/{line['passes']}" if isinstance(line.get("passes"), int) else ""
        words.append(f"pass {line['pass'] + 1}{passes}")
    if number_text(line.get("batch")):
        words.append(f"batch {number_text(line['batch'])}")
    cost = cost_of(line)
    if cost is not None:
        words.append(f"cost {number_text(cost)}")
    if number_text(line.get("examples_per_second")):
        words.append(f"{line['examples_per_second']:,.0f} examples/s")
    return ", ".join(words)


def table_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with at most ROWS_MAX rows. All texts are escaped here."""
    head = "".join(f"<th>{escaped(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:ROWS_MAX]
    )
    more = f"<p>and {len(rows) - ROWS_MAX} more</p>" if len(rows) > ROWS_MAX else ""
    return (
        f"<div><p>{escaped(title)}</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


class Curve(NamedTuple):
    """A curve of a chart. Points beyond LARGEST are left out."""

    name: str
    points: Sequence[Tuple[float, float]]
    has_marks: bool = False  # a mark at each point, for the few points of held-out data


def _drawable(points: Sequence[Tuple[float, float]]) -> Sequence[Tuple[float, float]]:
    """At most POINTS_MAX of the points, with the first and the last."""
    points = [(x, y) for x, y in points if abs(x) < LARGEST and abs(y) < LARGEST]
    if len(points) <= POINTS_MAX:
        return points
    return [points[i * (len(points) - 1) // (POINTS_MAX - 1)] for i in range(POINTS_MAX)]


def _ticks(low: float, high: float) -> List[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    while (high - low) / step > 5:
        step *= 2 if (high - low) / step <= 10 else 2.5
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step) + 1)]


def _range(values: Sequence[float]) -> Tuple[float, float]:
    low, high = min(values), max(values)
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) * 0.1 or 1.0
    return low - margin, high + margin


def chart_svg(curves: Sequence[Curve], x_title: str, y_title: str) -> Optional[str]:
    """The curves with axes and a legend; None if no curve has a point."""
    curves = [curve._replace(points=_drawable(curve.points)) for curve in curves]
    curves = [curve for curve in curves if curve.points][:CURVES_MAX]
    if not curves:
        return None
    width, height, left, right, top, bottom = 640, 280, 70, 620, 20, 240
    x_low, x_high = _range([x for curve in curves for x, _ in curve.points])
    y_low, y_high = _range([y for curve in curves for _, y in curve.points])

    def place(x: float, y: float) -> Tuple[float, float]:
        return (
            left + (x - x_low) / (x_high - x_low) * (right - left),
            bottom - (y - y_low) / (y_high - y_low) * (bottom - top),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for tick in _ticks(x_low, x_high):
        x, _ = place(tick, y_low)
        parts.append(
            f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
            f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{tick:.6g}</text>'
        )
    for tick in _ticks(y_low, y_high):
        _, y = place(x_low, tick)
        parts.append(
            f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
        )
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [place(x, y) for x, y in curve.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
        if curve.has_marks or len(places) == 1:
            mark = f'r="3" fill="{colour}"'
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" {mark}/>' for x, y in places]
        parts.append(
            f'<text x="{right}" y="{top + 12 + 14 * number}" text-anchor="end" fill="{colour}">'
            f"{escaped(curve.name)}</text>"
        )
    parts.append(
        f'<text x="{(left + right) // 2}" y="{height - 6}" text-anchor="middle">'
        f"{escaped(x_title)}</text>"
        f'<text x="{left}" y="{top - 7}" text-anchor="end">{escaped(y_title)}</text></svg>'
    )
    return "".join(parts)
