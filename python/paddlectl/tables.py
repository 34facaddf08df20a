"""Tables and optimizers as job.toml has them, for programs that give them in code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Dict, List, Mapping, Optional, Sequence, Union

Value = Union[bool, int, float, str]


@dataclass(frozen=True)
class Table:
    """A sparse table: a row of `width` float32 for every id from 0 to 2**64 - 1 that is used.

    The options are the keys of an embedding's weight in job.toml (docs/job.md); None is the
    engine's default.
    """

    name: str
    width: int
    initial_mean: Optional[float] = None
    initial_std: Optional[float] = None  # default: 1 / sqrt(width)
    learning_rate: Optional[float] = None  # a factor on the optimizer's
    l1: Optional[float] = None
    l2: Optional[float] = None
    clip_value: Optional[float] = None
    clip_norm: Optional[float] = None
    static: Optional[bool] = None  # True: pushes change nothing
    entry_count: Optional[int] = None  # an id gets its row at this sighting
    entry_probability: Optional[float] = None
    expire_passes: Optional[int] = None
    bytes_max: Optional[int] = None
    unseen: Optional[str] = None  # "mean" or "draw"
    on_full: Optional[str] = None  # "error" or "evict"


@dataclass(frozen=True)
class Optimizer:
    """The update rule of the pservers: a method and other keys of [optimizer] in job.toml."""

    method: str
    options: Mapping[str, Value] = field(default_factory=dict)


def _method(method: str, options: Mapping[str, Optional[Value]]) -> Optimizer:
    return Optimizer(method, {key: value for key, value in options.items() if value is not None})


def sgd(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """w -= r g. `options` of all methods: l1, l2, clip_value, clip_global_norm, warmup_samples,
    learning_rate_schedule and the other keys of [optimizer] in job.toml."""
    return _method("sgd", {"learning_rate": learning_rate, **options})


def momentum(learning_rate: float = 0.01, momentum: float = 0.9, **options: Value) -> Optimizer:
    """m = momentum m - r g; w += m."""
    return _method("momentum", {"learning_rate": learning_rate, "momentum": momentum, **options})


def torch_momentum(
    learning_rate: float = 0.01, momentum: float = 0.9, **options: Value
) -> Optimizer:
    """The momentum of PaddlePaddle v0.10: r (1 - momentum) from the second update on."""
    return _method(
        "torch_momentum", {"learning_rate": learning_rate, "momentum": momentum, **options}
    )


def adagrad(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """a += g^2; w -= r g / (sqrt(a) + epsilon). Options: momentum, epsilon."""
    return _method("adagrad", {"learning_rate": learning_rate, **options})


def decayed_adagrad(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """Adagrad whose squares decay. Options: rho, momentum, epsilon."""
    return _method("decayed_adagrad", {"learning_rate": learning_rate, **options})


def adadelta(learning_rate: float = 1.0, **options: Value) -> Optimizer:
    """Zeiler 2012. Options: rho, momentum, epsilon."""
    return _method("adadelta", {"learning_rate": learning_rate, **options})


def rmsprop(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """Options: rho, centered, momentum, epsilon."""
    return _method("rmsprop", {"learning_rate": learning_rate, **options})


def adam(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """Each row counts its own updates. Options: beta1, beta2, epsilon."""
    return _method("adam", {"learning_rate": learning_rate, **options})


def adamw(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """Adam with decoupled decay. Options: weight_decay, beta1, beta2, epsilon."""
    return _method("adamw", {"learning_rate": learning_rate, **options})


def adamax(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """Options: beta1, beta2, epsilon."""
    return _method("adamax", {"learning_rate": learning_rate, **options})


def ftrl(learning_rate: float = 0.01, **options: Value) -> Optimizer:
    """FTRL-proximal, McMahan 2013. Options: beta, l1, l2."""
    return _method("ftrl", {"learning_rate": learning_rate, **options})


def _toml(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    # Numbers of numpy are no int or float; their repr would name the type.
    return repr(float(value)) if not hasattr(value, "__index__") else str(int(value))


def _section(header: str, keys: Mapping[str, Value]) -> List[str]:
    return [header, *(f"{key} = {_toml(value)}" for key, value in keys.items())]


def to_toml(
    tables: Optional[Sequence[Table]],
    optimizer: Optional[Optimizer],
    strategy: Union[str, Mapping[str, Value], None],
) -> str:
    """The sections of job.toml that a program gives in code; what is None is left to job.toml."""
    lines: List[str] = []
    for table in tables or ():
        keys = {each.name: getattr(table, each.name) for each in fields(table)}
        lines += _section("[[table]]", {k: v for k, v in keys.items() if v is not None})
    if optimizer is not None:
        lines += _section("[optimizer]", {"method": optimizer.method, **optimizer.options})
    if strategy is not None:
        chosen: Dict[str, Value] = (
            {"sparse": strategy} if isinstance(strategy, str) else dict(strategy)
        )
        lines += _section("[strategy]", chosen)
    return "".join(line + "\n" for line in lines)
