"""The process `paddle client`, the engine's own client, which runs beside the program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Callable, List, Optional, Sequence, Tuple

from .errors import SidecarError, UsageError

_WORDS_BYTES_MAX = 4096
_END_SECONDS = 5.0
_MEMORY_LINK = "/memfd:paddlectl-trainer (deleted)"


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
        link = os.readlink(f"/proc/self/fd/{text}")
    except OSError:
        return []
    # A launcher that closes descriptors leaves the variable: then the number is another file's.
    return [int(text)] if link == _MEMORY_LINK else []


Process = subprocess.Popen[bytes]
_Start = Tuple[Callable[[], Process], "Future[Process]"]


class _Starter:
    """A thread that starts processes and never ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: Optional[SimpleQueue[_Start]] = None

    def start(self, open_process: Callable[[], Process]) -> Process:
        """What `open_process` returns or raises in that thread."""
        with self._lock:
            if self._starts is None:
                self._starts = SimpleQueue()
                threading.Thread(target=_serve, args=(self._starts,), daemon=True).start()
        started: Future[Process] = Future()
        self._starts.put((open_process, started))
        try:
            return started.result()
        except BaseException:  # An interrupt: the caller closes descriptors that a start needs.
            if not started.cancel():
                started.exception()
            raise


def _serve(starts: SimpleQueue[_Start]) -> None:
    while True:
        open_process, started = starts.get()
        if not started.set_running_or_notify_cancel():
            continue
        try:
            started.set_result(open_process())
        except BaseException as error:
            started.set_exception(error)
        del open_process, started


def _renew_starter() -> None:
    global _starter
    _starter = _Starter()


_starter = _Starter()
os.register_at_fork(after_in_child=_renew_starter)  # Threads stay in the parent.


class Sidecar:
    """The child process. Its output goes to this program's standard error.

    The kernel ends it when the thread that started it ends, so one thread starts all of them and
    lives as long as the program. It also ends by itself when its channel is closed.
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
            self._process = _starter.start(
                lambda: subprocess.Popen(
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=writer,
                    stderr=writer,
                    pass_fds=[channel_fd, memory_fd, *_inherited_memory()],
                )
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
        fd, self.words_fd = self.words_fd, -1
        if fd < 0:
            return
        try:
            os.close(fd)
        except OSError:  # The program has closed the descriptor itself.
            pass

    @property
    def exit_code(self) -> Optional[int]:
        """The exit code, minus the signal's number, or None while it runs."""
        return self._process.poll()
