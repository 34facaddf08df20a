"""Settings of this process as PaddlePaddle v0.10's paddle.init() takes them."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Union

from .errors import UsageError

_settings: Dict[str, str] = {}


def init(
    use_gpu: Optional[bool] = None,
    trainer_count: Optional[int] = None,
    port: Optional[int] = None,
    ports_num: Optional[int] = None,
    ports_num_for_sparse: Optional[int] = None,
    num_gradient_servers: Optional[int] = None,
    trainer_id: Optional[int] = None,
    pservers: Union[str, Sequence[str], None] = None,
) -> None:
    """Sets what join() uses. An argument wins over its variable PADDLE_INIT_<NAME>.

    `paddlectl train` sets all variables, so that a program needs no call of init(). `pservers` is
    "host,host" or a list. The program itself computes the network: `use_gpu` and `trainer_count`
    are accepted for programs of v0.10, and have no effect.
    """
    del use_gpu, trainer_count
    if pservers is not None and not isinstance(pservers, str):
        pservers = ",".join(pservers)
    given = {
        "port": port,
        "ports_num": ports_num,
        "ports_num_for_sparse": ports_num_for_sparse,
        "num_gradient_servers": num_gradient_servers,
        "trainer_id": trainer_id,
        "pservers": pservers,
    }
    _settings.update({name: str(value) for name, value in given.items() if value is not None})


def check_pservers() -> None:
    """Refuses to wait for pservers in a job of paddlectl that has none."""
    is_named = "pservers" in _settings or "PADDLE_INIT_PSERVERS" in os.environ
    if "PADDLECTL_PROCESS" in os.environ and not is_named:
        raise UsageError("this job has no pservers", "start it with paddlectl train --pservers 2")


def flags() -> List[str]:
    """The flags of the sidecar for the arguments of init()."""
    return [f"--{name}={value}" for name, value in _settings.items()]
