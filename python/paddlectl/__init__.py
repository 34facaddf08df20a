"""Trains a program's embedding tables on the pservers of a paddlectl job.

A program joins the job, pulls the rows of a batch's ids and pushes their gradients. The engine's
own client runs as a process beside the program; this package needs numpy only.
"""

try:
    import numpy as _numpy  # noqa: F401
except ImportError as _error:
    raise ImportError(
        "paddlectl needs numpy: apt install python3-numpy, or python3 -m pip install numpy"
    ) from _error

from .cluster import Cluster
from .errors import (
    AuthError,
    DataError,
    Error,
    ResourceError,
    SidecarError,
    UnreachableError,
    UsageError,
    VersionError,
)
from .job import RESUMABLE, Handle, Job, PassTotals, Resumed, TableTotals, join
from .reader import Reader, read
from .rows import Rows
from .settings import init
from .tables import (
    Optimizer,
    Table,
    adadelta,
    adagrad,
    adam,
    adamax,
    adamw,
    decayed_adagrad,
    ftrl,
    momentum,
    rmsprop,
    sgd,
    torch_momentum,
)

__all__ = [
    "AuthError",
    "Cluster",
    "DataError",
    "Error",
    "Handle",
    "Job",
    "Optimizer",
    "PassTotals",
    "RESUMABLE",
    "Reader",
    "ResourceError",
    "Resumed",
    "Rows",
    "SidecarError",
    "Table",
    "TableTotals",
    "UnreachableError",
    "UsageError",
    "VersionError",
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "decayed_adagrad",
    "ftrl",
    "init",
    "join",
    "momentum",
    "read",
    "rmsprop",
    "sgd",
    "torch_momentum",
]
