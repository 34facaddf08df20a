"""Errors of this package. Every error has a next step for the user in `hint`."""

from __future__ import annotations

from typing import Dict, Type


class Error(Exception):
    """An error of the job or of the engine.

    `kind` is the engine's word for the cause, and `hint` the next step, or "".
    """

    kind = "failed"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class UsageError(Error):
    """A wrong argument, configuration or order of calls."""

    kind = "usage"


class VersionError(Error):
    """The processes of the job have different versions."""

    kind = "version"


class UnreachableError(Error):
    """A pserver or another trainer was lost. The job object cannot be used any more.

    Let the exception end the program: `paddlectl train --restarts` then starts it again, and
    `join()` continues at the position of the pservers.
    """

    kind = "unreachable"


class AuthError(Error):
    """A wrong secret, or a process of another job."""

    kind = "auth"


class DataError(Error):
    """A snapshot or message is malformed, or the job's pservers have other tables."""

    kind = "data"


class ResourceError(Error):
    """Memory, disk, a port or another limit is exhausted."""

    kind = "resource"


class SidecarError(Error):
    """The process `paddle client` ended, or gave no sign of life within the timeout."""

    kind = "sidecar"


_CLASSES: Dict[str, Type[Error]] = {
    each.kind: each
    for each in (UsageError, VersionError, UnreachableError, AuthError, DataError, ResourceError)
}


def from_answer(kind: str, message: str, hint: str) -> Error:
    """The error that an answer of the sidecar reports."""
    error = _CLASSES.get(kind, Error)(message, hint)
    error.kind = kind
    return error
