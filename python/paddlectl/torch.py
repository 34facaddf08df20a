"""Torch modules whose rows live on the job's pservers, and the optimizer that trains them.

    import paddlectl as pd, paddlectl.torch as pt

    tables = pt.convert_(model, min_rows=100_000)    # large nn.Embedding become served ones
    with pd.join(tables=tables, optimizer=pd.adagrad(0.05)) as job:
        pt.attach(model, job)
        optimizer = pt.ServedOptimizer(job, dense=torch.optim.Adam(model.parameters()))
        ...
        loss.backward()
        optimizer.step(samples=len(labels), cost=loss.item() * len(labels))

A forward pulls the rows of its ids. They are a leaf of autograd's graph: backward() leaves their
gradient there, and step() pushes it. Served rows are no parameters of the module, so neither
DistributedDataParallel nor the dense optimizer sees them. The pservers average the gradients of
the trainers, weighted by the samples of each.

In eval() a forward reads rows without gradients, and for ids that have no row the table's
initial_mean, which is 0 by default.
"""

from __future__ import annotations

import io
import warnings
import weakref
from dataclasses import dataclass, fields
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .errors import UsageError
from .job import Handle, Job
from .rows import Rows
from .tables import Table, Value

Batch = TypeVar("Batch")
Ids = npt.NDArray[np.int64]
IdsOf = Callable[[Any], Union[Tensor, Sequence[Tensor]]]  # of a batch, for prefetch()

_dist: Any = torch.distributed  # partly without types

LARGE = 100_000  # rows; convert_() leaves smaller tables in the program


@dataclass
class _Lookup:
    """Rows of a table, and the leaf (m, width) that gets their gradient."""

    rows: Rows
    leaf: Tensor


@dataclass
class _Prefetched:
    """The ids (n,) of a forward to come, and the row of each in `rows`."""

    ids: Ids
    index: Tensor
    rows: Rows


class _Step:
    """What was looked up since the last push of a job: its modules and its optimizer share one."""

    def __init__(self) -> None:
        self.lookups: Dict[str, List[_Lookup]] = {}
        self.prefetched: Dict[str, List[_Prefetched]] = {}
        self.padding: Dict[str, Optional[int]] = {}  # by table of the modules


_steps: "weakref.WeakKeyDictionary[Job, _Step]" = weakref.WeakKeyDictionary()


def _step_of(job: Job) -> _Step:
    return _steps.setdefault(job, _Step())


def _check_ids(table: str, ids: Tensor) -> None:
    if ids.dtype not in (torch.int64, torch.int32):
        raise UsageError(f"table '{table}': ids are int64 or int32, not {ids.dtype}")


def _numpy(ids: Tensor, padding: Optional[int]) -> Ids:
    """The flat ids that are no padding, in the program's memory."""
    flat: Ids = ids.detach().reshape(-1).to("cpu", torch.int64).numpy()
    if padding is not None:
        flat = flat[flat != padding]
    return flat


class _Served(nn.Module):
    """What both modules share: a table, the job that has it, and the look-up of rows."""

    def __init__(self, table: Union[Table, str], job: Optional[Job],
                 padding_idx: Optional[int]) -> None:
        super().__init__()
        if isinstance(table, str):
            if job is None:
                raise UsageError(f"table '{table}': its width is not known",
                                 "pass paddlectl.Table(name, width), or the job")
            table = Table(table, job.tables.get(table, 0))
        self.table = table
        self.padding_idx = padding_idx
        self._job: Optional[Job] = None
        if job is not None:
            self.attach(job)

    def attach(self, job: Job) -> None:
        """Takes rows from this job; UsageError if it has no such table of this width."""
        name, width = self.table.name, self.table.width
        if name not in job.tables:
            raise UsageError(f"table '{name}': the job has only {', '.join(job.tables)}",
                             "give it to join(tables=...), or to job.toml as [[table]]")
        if job.tables[name] != width:
            raise UsageError(f"table '{name}': the width is {width} in the model and "
                             f"{job.tables[name]} in the job", "make them equal")
        padding = _step_of(job).padding
        if padding.setdefault(name, self.padding_idx) != self.padding_idx:
            raise UsageError(f"table '{name}': a module has padding_idx={padding[name]} and another"
                             f" {self.padding_idx}", "give all modules of a table the same one")
        self._job = job

    def __getstate__(self) -> Dict[str, Any]:
        # A copy has no job until attach().
        return {**self.__dict__, "_job": None}

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"'{self.table.name}', width={self.table.width}{padding}"

    def _gather(self, ids: Tensor, rows: Optional[Rows]) -> Tuple[Tensor, Optional[Tensor]]:
        """The values (k, width) of those of the flat `ids` (n,) that are no padding, and which of
        the ids these are (n,); None: all."""
        _check_ids(self.table.name, ids)
        kept = None if self.padding_idx is None else ids != self.padding_idx
        if rows is None:
            return self._look_up(_numpy(ids, self.padding_idx), ids.device), kept
        index = torch.from_numpy(rows.index).reshape(-1).to(ids.device)
        if len(index) != len(ids):
            raise UsageError(f"table '{self.table.name}': rows= are those of {len(index)} ids, and "
                             f"the forward has {len(ids)}")
        return self._leaf(rows, ids.device)[index if kept is None else index[kept]], kept

    def _look_up(self, ids: Ids, device: torch.device) -> Tensor:
        name = self.table.name
        if self._job is None:
            raise UsageError(f"table '{name}': the module has no job",
                             "call paddlectl.torch.attach(model, job) before the first forward")
        if len(ids) == 0:
            return torch.zeros(0, self.table.width, device=device)
        if not self._learns():
            rows = self._job.pull(name, ids, absent="seed" if self.training else "zero")
            return torch.from_numpy(rows.values).to(device)[torch.from_numpy(rows.index).to(device)]
        prefetched = _step_of(self._job).prefetched.get(name, [])
        for each in prefetched:
            if np.array_equal(each.ids, ids):
                return self._leaf(each.rows, device)[each.index.to(device)]
        if prefetched:
            warnings.warn(f"table '{name}': the forward has other ids than prefetch() was given, "
                          "so their rows are pulled now", stacklevel=4)
        rows = self._job.pull(name, ids)
        return self._leaf(rows, device)[torch.from_numpy(rows.index).to(device)]

    def _learns(self) -> bool:
        return self.training and torch.is_grad_enabled()

    def _leaf(self, rows: Rows, device: torch.device) -> Tensor:
        """The values (m, width) of the rows; the same leaf for all forwards of these rows."""
        leaf = torch.from_numpy(rows.values).to(device)
        if self._job is None or not self._learns():
            return leaf
        lookups = _step_of(self._job).lookups.setdefault(self.table.name, [])
        for lookup in lookups:
            if lookup.rows is rows:
                return lookup.leaf
        lookups.append(_Lookup(rows, leaf.requires_grad_()))
        return leaf


class ServedEmbedding(_Served):
    """nn.Embedding whose rows are those of the job's table `table`: any ids, no number of rows.

    `table` is a paddlectl.Table, or with `job` its name. `padding_idx` is an id whose row is zero
    and never trained.
    """

    def __init__(self, table: Union[Table, str], job: Optional[Job] = None,
                 padding_idx: Optional[int] = None) -> None:
        super().__init__(table, job, padding_idx)

    def forward(self, ids: Tensor, rows: Optional[Rows] = None) -> Tensor:
        """float32 (*, width) for int64 or int32 `ids` (*). `rows`: what job.pull() or
        job.prefetch() returned for these ids; otherwise the rows are pulled."""
        values, kept = self._gather(ids.reshape(-1), rows)
        if kept is not None:
            zeros = values.new_zeros(len(kept), self.table.width)
            values = zeros.index_put((kept,), values)
        return values.reshape(*ids.shape, self.table.width)


class ServedEmbeddingBag(_Served):
    """nn.EmbeddingBag whose rows are those of the job's table `table`: sums or means of rows.

    `mode` is "sum" or "mean"; a bag without ids is zero. `padding_idx` is an id that is left out.
    """

    def __init__(self, table: Union[Table, str], job: Optional[Job] = None, mode: str = "mean",
                 padding_idx: Optional[int] = None, include_last_offset: bool = False) -> None:
        super().__init__(table, job, padding_idx)
        if mode not in ("sum", "mean"):
            raise UsageError(f"table '{self.table.name}': mode is 'sum' or 'mean', not '{mode}'")
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, ids: Tensor, offsets: Optional[Tensor] = None,
                per_sample_weights: Optional[Tensor] = None, rows: Optional[Rows] = None) -> Tensor:
        """float32 (bags, width). `ids` are (bags, n): padded bags of one length; or (n,) with the
        `offsets` (bags,) where each bag begins. `per_sample_weights` are like ids, for sums."""
        bag_of, bags = self._bags(ids, offsets)
        if per_sample_weights is not None:
            self._check_weights(ids, per_sample_weights)
        values, kept = self._gather(ids.reshape(-1), rows)
        if per_sample_weights is not None:
            weights = per_sample_weights.reshape(-1, 1)
            values = values * (weights if kept is None else weights[kept])
        bag_of = bag_of if kept is None else bag_of[kept]
        zeros = values.new_zeros(bags, self.table.width)
        sums = zeros.index_put((bag_of,), values, accumulate=True)
        if self.mode == "sum":
            return sums
        return sums / torch.bincount(bag_of, minlength=bags).clamp(min=1)[:, None]

    def _check_weights(self, ids: Tensor, weights: Tensor) -> None:
        if self.mode != "sum":
            raise UsageError(f"table '{self.table.name}': per_sample_weights are for sums only")
        if weights.shape != ids.shape or weights.dtype != torch.float32:
            raise UsageError(f"table '{self.table.name}': per_sample_weights are float32 of the "
                             f"shape of the ids, {tuple(ids.shape)}, not {weights.dtype} "
                             f"{tuple(weights.shape)}")

    def _bags(self, ids: Tensor, offsets: Optional[Tensor]) -> Tuple[Tensor, int]:
        """The bag of each of the flat ids, and the number of bags."""
        if ids.dim() == 2 and offsets is None:
            bags = len(ids)
            numbers = torch.arange(bags, device=ids.device)
            return numbers.repeat_interleave(ids.shape[1]), bags
        if ids.dim() != 1 or offsets is None or offsets.dim() != 1:
            raise UsageError(f"table '{self.table.name}': ids are (bags, n), or (n,) with offsets "
                             f"(bags,), not {tuple(ids.shape)} "
                             f"{'without' if offsets is None else 'with'} offsets")
        bounds = offsets.detach().to("cpu", torch.int64)
        if not self.include_last_offset:
            bounds = torch.cat([bounds, torch.tensor([len(ids)])])
        counts = bounds[1:] - bounds[:-1]
        is_whole = len(bounds) > 0 and int(bounds[0]) == 0 and int(bounds[-1]) == len(ids)
        if not is_whole or bool((counts < 0).any()):
            last = "end with" if self.include_last_offset else "end at most at"
            raise UsageError(f"table '{self.table.name}': offsets begin with 0, rise, and {last} "
                             f"{len(ids)}, the number of ids",
                             f"include_last_offset is {self.include_last_offset}")
        numbers = torch.arange(len(counts), device=ids.device)
        return numbers.repeat_interleave(counts.to(ids.device)), len(counts)


def attach(model: nn.Module, job: Job) -> None:
    """Lets all served modules of the model take their rows from this job."""
    for module in model.modules():
        if isinstance(module, _Served):
            module.attach(job)


def _why_not(module: Union[nn.Embedding, nn.EmbeddingBag], shared: bool) -> str:
    """Why this module cannot be served; "" if it can."""
    if module.max_norm is not None:
        return f"max_norm={module.max_norm} changes rows in each forward, and only a push can here"
    if module.scale_grad_by_freq:
        return "scale_grad_by_freq needs how often an id occurs in the batches of all trainers"
    if isinstance(module, nn.EmbeddingBag) and module.mode == "max":
        return 'mode="max" is not there: use "sum" or "mean"'
    if module.weight.dtype != torch.float32:
        return f"its weight is {module.weight.dtype}, and rows are float32"
    if not module.weight.requires_grad:
        return "its weight is frozen, and a served table begins anew"
    return "another module uses the same weight" if shared else ""


def _shared_weights(model: nn.Module) -> Dict[int, int]:
    """How many modules have each parameter, by id()."""
    counts: Dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                counts[id(parameter)] = counts.get(id(parameter), 0) + 1
    return counts


def _table_for(name: str, module: Union[nn.Embedding, nn.EmbeddingBag],
               keys: Mapping[str, Value]) -> Table:
    weight = module.weight.detach()
    # nn.Embedding draws from N(0, 1); a meta weight has no values to measure.
    std = 1.0 if weight.is_meta else float(_from_rank_0(float(weight.std())))
    options: Dict[str, Any] = {"initial_std": std, **keys}
    unknown = set(options) - {each.name for each in fields(Table)[2:]}  # after name and width
    if unknown:
        raise UsageError(f"convert_({min(unknown)}=): a table has no such key",
                         "keys are those of paddlectl.Table without name and width")
    return Table(name, module.embedding_dim, **options)


def convert_(model: nn.Module, job: Optional[Job] = None, min_rows: int = LARGE,
             names: Optional[Mapping[str, str]] = None, **keys: Value) -> List[Table]:
    """Replaces each nn.Embedding and nn.EmbeddingBag of at least `min_rows` rows by a served one.

    Returns the tables, which join(tables=...) needs; then attach() the model to the job. With
    `job`, whose job.toml has the tables, the model is attached at once.

    A table is called as its module is in model.named_modules(), or as `names` says by that name.
    Its rows begin anew, with the standard deviation that the module's weight has now (on rank 0, if
    there is torch.distributed; else seed all trainers alike), or with the `keys` of all tables,
    such as initial_std=0.01 or entry_count=2. A weight on the device "meta" takes no memory.

    UsageError names a module that cannot be served, and why; then none is replaced.
    """
    shared = _shared_weights(model)
    unknown = set(names or {}) - {path for path, _ in model.named_modules()}
    if unknown:
        raise UsageError(f"names: the model has no module '{min(unknown)}'")
    served: Dict[int, _Served] = {}
    tables: Dict[str, Table] = {}
    paths: Set[str] = set()
    for path, module in model.named_modules():
        if not isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            continue
        if module.num_embeddings < min_rows:
            continue
        why = _why_not(module, shared[id(module.weight)] > 1)
        if why:
            raise UsageError(f"module '{path}' cannot be served: {why}",
                             f"keep it in the program: min_rows={module.num_embeddings + 1}")
        if not path:
            raise UsageError("the model itself is an embedding: put it into a module")
        name = (names or {}).get(path, path)
        table = tables.setdefault(name, _table_for(name, module, keys))
        if table.width != module.embedding_dim:
            raise UsageError(f"module '{path}' has rows of {module.embedding_dim}, and table "
                             f"'{name}' has rows of {table.width} for another module",
                             "give it another name: names={...}")
        served[id(module)] = _serve(table, module)
        paths.add(path)
    kept = set(names or {}) - paths
    if kept:
        raise UsageError(f"names: module '{min(kept)}' stays in the program: it is no embedding of "
                         f"at least min_rows={min_rows} rows", "leave it out of names")
    for parent in list(model.modules()):
        for child_name, child in list(parent._modules.items()):
            if id(child) in served:
                setattr(parent, child_name, served[id(child)])
    if job is not None:
        attach(model, job)
    return list(tables.values())


def _serve(table: Table, module: Union[nn.Embedding, nn.EmbeddingBag]) -> _Served:
    made: _Served
    if isinstance(module, nn.EmbeddingBag):
        made = ServedEmbeddingBag(table, None, module.mode, module.padding_idx,
                                  module.include_last_offset)
    else:
        made = ServedEmbedding(table, None, module.padding_idx)
    made.train(module.training)
    return made


class ServedOptimizer:
    """Pushes the gradients of the rows of all forwards since the last step, then steps `dense`, a
    torch optimizer of the model's own parameters.

    The job's optimizer, on the pservers, updates the rows. A scheduler of torch takes `dense`.
    """

    def __init__(self, job: Job, dense: Optional[torch.optim.Optimizer] = None) -> None:
        self.job = job
        self.dense = dense
        self._step = _step_of(job)
        self._pushed: Optional[Handle[None]] = None
        self._is_ahead = False
        self._is_stopping = False

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """The groups of `dense`, and one with the rows of this step: torch.cuda.amp.GradScaler and
        clip_grad_norm_ find all gradients there. They may be changed in place before step()."""
        leaves = [lookup.leaf for lookups in self._step.lookups.values() for lookup in lookups]
        groups: List[Dict[str, Any]] = self.dense.param_groups if self.dense is not None else []
        return [*groups, {"params": leaves}]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients since the last step; what forwards looked up can still be used."""
        if self.dense is not None:
            self.dense.zero_grad(set_to_none=set_to_none)
        for lookups in self._step.lookups.values():
            for lookup in lookups:
                lookup.leaf.grad = None

    def step(self, samples: int, cost: Optional[float] = None) -> None:
        """Pushes and steps. `samples` are those of all forwards since the last step, and `cost` is
        the sum of their costs; the gradients are means over the samples, as those of a mean loss.

        All trainers call it equally often in a pass, with or without rows. `dense` is stepped when
        the pservers have the gradients. But within prefetch() it returns before: the next step
        raises their error.
        """
        gradients: Dict[str, List[Tuple[Rows, npt.NDArray[np.float32]]]] = {}
        for table, lookups in self._step.lookups.items():
            pairs = [(each.rows, each.leaf.grad.to("cpu").numpy())
                     for each in lookups if each.leaf.grad is not None]
            if pairs:
                gradients[table] = pairs
        self.wait()  # At most one push is on its way.
        self._pushed = self.job.push_async(gradients, samples=samples, cost=cost)
        self._step.lookups = {}
        if not self._is_ahead:
            self.wait()
        if self.dense is not None:
            self.dense.step()

    def wait(self) -> None:
        """Returns when the last push has been applied. Raises its error."""
        pushed, self._pushed = self._pushed, None
        if pushed is None:
            return
        pushed.wait()
        self._is_stopping = self._is_any(self.job.stop_asked)

    @property
    def stop_asked(self) -> bool:
        """Whether the job stops: then save() and exit with 75. All trainers see it after the same
        step(); `job.stop_asked` may be set a step earlier on some of them."""
        return self._is_stopping

    def _is_any(self, own: bool) -> bool:
        # With sync the answers to a push tell all trainers the same.
        if self.job.strategy == "sync" or not _is_distributed():
            return own
        flag = torch.tensor([int(own)], device="cuda" if _dist.get_backend() == "nccl" else "cpu")
        _dist.all_reduce(flag, _dist.ReduceOp.MAX)
        return bool(flag.item())

    def prefetch(self, batches: Iterable[Batch], ids: Mapping[str, IdsOf], depth: int = 1
                 ) -> Iterator[Batch]:
        """The batches, whose rows are pulled `depth` batches before their forward.

        `ids` has a function for each table: the ids that forwards of a batch will use, as a tensor,
        or a list of tensors if several forwards of the table follow. Pushes then happen in the
        background. A row may miss the updates of the last `depth` steps, so results are not those
        without prefetch(), but they are the same in each run.
        """
        step = self._step

        def flat_ids(table: str, batch: Batch) -> List[Ids]:
            given = ids[table](batch)
            each = [given] if isinstance(given, Tensor) else given
            for tensor in each:
                _check_ids(table, tensor)
            return [_numpy(tensor, step.padding.get(table)) for tensor in each]

        def pulled(table: str) -> Callable[[Batch], Ids]:
            return lambda batch: np.concatenate(flat_ids(table, batch))

        self._is_ahead = True
        try:
            for batch, rows in self.job.prefetch(batches, {table: pulled(table) for table in ids},
                                                 depth=depth):
                step.prefetched = {table: _prefetched(flat_ids(table, batch), rows[table])
                                   for table in ids}
                yield batch
                step.prefetched = {}
        finally:
            self._is_ahead = False
            step.prefetched = {}
        self.wait()

    def save(self, model: nn.Module, state: Any = None) -> Any:
        """Saves a snapshot of the tables, the model's own parameters and buffers, the state of
        `dense`, and `state`: numbers, texts, tensors, lists and dicts of them. All trainers call
        it; returns the path on trainer 0.
        """
        self.wait()
        inside = {"model": _bare(model).state_dict(), "state": state,
                  "dense": self.dense.state_dict() if self.dense is not None else None}
        buffer = io.BytesIO()
        torch.save(_written(inside), buffer)
        return self.job.save(state=buffer.getvalue())

    def resume(self, model: nn.Module) -> Any:
        """Loads what save() wrote into the snapshot that the job continues from; returns `state`.

        Returns None if the job begins anew. With torch.distributed, all ranks call it, and get what
        rank 0 has. If only this program was started again, the whole job goes back to the snapshot.
        """
        resumed = self.job.resumed
        own = (None, False) if resumed is None else (resumed.state, resumed.has_returned)
        state, has_returned = _from_rank_0(own)
        if has_returned:
            self.job.go_back("the layers of a program that was started again are those of the last "
                             "snapshot, so all trainers continue there")
        if state is None:
            return None
        # weights_only: a snapshot from elsewhere cannot run code here.
        inside = _read(torch.load(io.BytesIO(state), map_location="cpu", weights_only=True))
        _bare(model).load_state_dict(inside["model"])
        if self.dense is not None:
            self.dense.load_state_dict(inside["dense"])
        return inside["state"]


def _prefetched(ids: List[Ids], rows: Rows) -> List[_Prefetched]:
    """Divides the index of rows of all `ids` among them."""
    found, begin = [], 0
    for each in ids:
        end = begin + len(each)
        found.append(_Prefetched(each, torch.from_numpy(rows.index[begin:end]), rows))
        begin = end
    return found


def _is_distributed() -> bool:
    return bool(_dist.is_available() and _dist.is_initialized())


def _from_rank_0(value: Any) -> Any:
    """What rank 0 gives, on all ranks; the value itself without torch.distributed."""
    values = [value]
    if _is_distributed():
        _dist.broadcast_object_list(values)
    return values[0]


def _bare(model: nn.Module) -> nn.Module:
    """The module inside DistributedDataParallel."""
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        return model
    inside: nn.Module = model.module
    return inside


def _written(value: Any) -> Any:
    """The value as torch.load(weights_only=True) reads it in all versions: 1.13 knows no floats."""
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, (list, tuple)):
        return type(value)(_written(each) for each in value)
    if isinstance(value, dict):
        return {key: _written(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, str, Tensor)):
        return value
    raise UsageError(f"save(): a snapshot takes no {type(value).__name__}",
                     "use numbers, texts, tensors, and lists and dicts of them")


def _read(value: Any) -> Any:
    """What _written() was given."""
    if isinstance(value, (list, tuple)):
        return type(value)(_read(each) for each in value)
    if not isinstance(value, dict):
        return value
    if list(value) == ["float"]:
        return float.fromhex(value["float"])
    return {key: _read(each) for key, each in value.items()}
