"""The process `paddle client`, the engine's own client, which runs beside the program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from typing import List, Optional, Sequence

from .errors import SidecarError, UsageError

_WORDS_BYTES_MAX = 4096
_END_SECONDS = 5.0


def find_program() -> str:
    """The engine: PADDLE_PROGRAM, else `paddle` in PATH."""
    named = os.environ.get("PADDLE_PROGRAM")
    if named:
        return named
    found = shutil.which("paddle")
    if found:
        return found
    raise UsageError(
        "the engine `paddle` is not in PATH, and PADDLE_PROGRAM is not set",
        "start the program by `paddlectl train`, or set PADDLE_PROGRAM to the path of paddle",
    )


def _inherited_memory() -> List[int]:
    # The supervisor's memory for a restarted trainer, which the sidecar reads.
    text = os.environ.get("PADDLECTL_MEMORY_FD", "")
    if not text.isdigit():
        return []
    try:
        os.fstat(int(text))
    except OSError:
        return []
    return [int(text)]


class Sidecar:
    """The child process. Its output goes to this program's standard error.

    The kernel ends it when the thread that started it ends, and it ends by itself when its channel
    is closed.
    """

    def __init__(self, flags: Sequence[str], channel_fd: int, memory_fd: int) -> None:
        program = find_program()
        arguments = [
            program,
            "client",
            f"--channel_fd={channel_fd}",
            f"--memory_fd={memory_fd}",
            *flags,
        ]
        self._words = b""
        self.words_fd, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                pass_fds=[channel_fd, memory_fd, *_inherited_memory()],
            )
        except OSError as error:
            os.close(self.words_fd)
            raise UsageError(
                f"cannot start {program}: {error.strerror}",
                "PADDLE_PROGRAM, or `paddle` in PATH, is the engine",
            ) from None
        finally:
            os.close(writer)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._copy_words, daemon=True)
        self._reader.start()

    def _copy_words(self) -> None:
        while True:
            try:
                words = os.read(self.words_fd, 4096)
            except OSError:
                return
            if not words:
                return
            self._words = (self._words + words)[-_WORDS_BYTES_MAX:]
            try:
                os.write(2, words)
            except OSError:
                pass

    def _last_line(self) -> str:
        lines = self._words.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def death(self) -> SidecarError:
        """The error after the end of the channel. Ends the process if it has not ended."""
        self.end(_END_SECONDS)
        code = self._process.returncode
        if code is not None and code < 0:
            how = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        else:
            how = f"exited with code {code}"
        words = self._last_line()
        return SidecarError(
            f"paddle client {how}" + (f"; its last words: {words}" if words else ""),
            "its log is in this program's standard error",
        )

    def end(self, seconds: float = _END_SECONDS) -> None:
        """Waits for its end; kills it after so many seconds. REQUIRES: the channel is closed."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1.0)
        self.close_words()

    def close_words(self) -> None:
        """Closes the pipe of its output, also in a forked child."""
        if self.words_fd >= 0:
            os.close(self.words_fd)
            self.words_fd = -1

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code, minus the signal's number, or None while it runs."""
        return self._process.poll()
