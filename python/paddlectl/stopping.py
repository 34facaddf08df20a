"""SIGTERM, by which `paddlectl stop` asks a program to save and to exit with 75."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import List, Optional


class StopNote:
    """Whether a SIGTERM has come. Only a note: it may have come within a call of the job."""

    is_asked = False


_notes: List[StopNote] = []


def _on_sigterm(number: int, frame: Optional[FrameType]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # The next one ends the program.
    for note in _notes:
        note.is_asked = True


def watch() -> StopNote:
    """A note of the first SIGTERM. A program's own handler stays, and nothing is noted.

    Python handles signals in the main thread only; from another thread nothing is noted.
    """
    note = StopNote()
    if threading.current_thread() is not threading.main_thread():
        return note
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _on_sigterm):
        _notes.append(note)
        signal.signal(signal.SIGTERM, _on_sigterm)
    return note


def forget(note: StopNote) -> None:
    """Undoes watch(), and restores the default action when no note is left."""
    if note not in _notes:
        return
    _notes.remove(note)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and not _notes and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
