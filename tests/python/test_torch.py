"""paddlectl.torch on a job without a cluster: the same numbers as torch's own modules."""

from __future__ import annotations

import copy
import inspect
import warnings

import pytest

np = pytest.importorskip("numpy", reason="there is no python3-numpy")
torch = pytest.importorskip("torch", reason="there is no python3-torch")

import paddlectl as pd  # noqa: E402
import paddlectl.torch as pt  # noqa: E402
from support.standin_job import StandinJob  # noqa: E402

nn = torch.nn
WIDTH = 4
ROWS = 50


@pytest.fixture
def job():
    return StandinJob({"t": WIDTH, "u": 3})


def twin(job, kind=nn.Embedding, table="t", **options):
    """torch's module with the rows that the job's table begins with."""
    module = kind(ROWS, job.tables[table], **options)
    with torch.no_grad():
        for id in range(ROWS):
            module.weight[id] = torch.from_numpy(job.row(table, id))
        if options.get("padding_idx") is not None:
            module.weight[options["padding_idx"]] = 0
    return module


def table(job, name="t"):
    return pd.Table(name, width=job.tables[name])


def check_like(job, served, local, *arguments, **keywords):
    """Both modules: the same output, and after a step of SGD the same rows."""
    optimizer = pt.ServedOptimizer(job)
    mine, theirs = served(*arguments, **keywords), local(*arguments, **keywords)
    torch.testing.assert_close(mine, theirs)
    weights = torch.randn(mine.shape, generator=torch.Generator().manual_seed(3))
    (mine * weights).sum().backward()
    (theirs * weights).sum().backward()
    with torch.no_grad():
        local.weight -= job.rate * local.weight.grad
    optimizer.step(samples=2)
    for id in job.rows["t"]:
        torch.testing.assert_close(torch.from_numpy(job.rows["t"][id]), local.weight[id].detach())
    return mine


def test_the_standin_has_the_calls_of_a_job():
    for name in ("pull", "push_async", "prefetch", "save", "go_back"):
        calls = [inspect.signature(getattr(each, name)) for each in (StandinJob, pd.Job)]
        assert list(calls[0].parameters) == list(calls[1].parameters), name


def test_an_embedding_is_torchs(job):
    ids = torch.tensor([[3, 9], [3, 1], [49, 9]])
    out = check_like(job, pt.ServedEmbedding(table(job), job), twin(job), ids)
    assert out.shape == (3, 2, WIDTH)
    assert job.pushes == [(2, None, {"t": 4})]


def test_padding_is_zero_and_has_no_row(job):
    served = pt.ServedEmbedding(table(job), job, padding_idx=9)
    out = check_like(job, served, twin(job, padding_idx=9), torch.tensor([[3, 9], [9, 1]]))
    assert not out[0, 1].any() and not out[1, 0].any()
    assert job.pulls == [("t", [1, 3], "seed")]
    assert not served(torch.tensor([9, 9])).any()  # pulls nothing
    assert len(job.pulls) == 1


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 9])
def test_a_bag_is_torchs(job, mode, padding_idx):
    options = {"mode": mode, "padding_idx": padding_idx}

    def pair(**more):
        return (pt.ServedEmbeddingBag(table(job), job, **options, **more),
                twin(job, nn.EmbeddingBag, **options, **more))

    check_like(job, *pair(), torch.tensor([[3, 9, 3], [1, 9, 9], [9, 9, 9]]))
    job.rows["t"].clear()
    check_like(job, *pair(), torch.tensor([3, 9, 3, 1, 9]), torch.tensor([0, 0, 2, 5]))
    job.rows["t"].clear()
    check_like(job, *pair(include_last_offset=True), torch.tensor([3, 9, 3, 1]),
               torch.tensor([0, 2, 2, 4]))


def test_weights_of_a_sum_are_torchs(job):
    ids, weights = torch.tensor([[3, 9], [1, 3]]), torch.tensor([[0.5, 2.0], [3.0, -1.0]])
    served = pt.ServedEmbeddingBag(table(job), job, mode="sum", padding_idx=1)
    local = twin(job, nn.EmbeddingBag, mode="sum", padding_idx=1)
    check_like(job, served, local, ids, per_sample_weights=weights)
    mean = pt.ServedEmbeddingBag(table(job, "u"), job)
    with pytest.raises(pd.UsageError, match="per_sample_weights are for sums"):
        mean(ids, per_sample_weights=weights)


def test_weights_that_fit_no_ids_are_refused_as_torch_does(job):
    served = pt.ServedEmbeddingBag(table(job), job, mode="sum")
    local = twin(job, nn.EmbeddingBag, mode="sum")
    ids = torch.tensor([[3, 9], [1, 3]])
    for weights in (torch.ones(4), torch.ones(2, 1), torch.ones(2, 2, dtype=torch.float64)):
        with pytest.raises((ValueError, RuntimeError)):
            local(ids, per_sample_weights=weights)
        with pytest.raises(pd.UsageError, match=r"float32 of the shape of the ids, \(2, 2\), not"):
            served(ids, per_sample_weights=weights)
    assert job.pulls == [], "nothing was looked up for them"


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_no_bags_are_torchs(job, mode):
    none = torch.tensor([], dtype=torch.int64)
    for last, arguments in ((False, (none, none)), (True, (none, torch.tensor([0]))),
                            (False, (none.reshape(0, 3),))):
        options = {"mode": mode, "include_last_offset": last}
        served = pt.ServedEmbeddingBag(table(job), job, **options)
        local = twin(job, nn.EmbeddingBag, **options)
        assert served(*arguments).shape == local(*arguments).shape == (0, WIDTH)


def test_offsets_that_fit_no_ids_are_refused(job):
    bag = pt.ServedEmbeddingBag(table(job), job)
    for offsets in ([1, 2], [0, 2, 1], [0, 9], []):
        with pytest.raises(pd.UsageError, match="offsets begin with 0, rise"):
            bag(torch.arange(4), torch.tensor(offsets, dtype=torch.int64))
    last = pt.ServedEmbeddingBag(table(job), job, include_last_offset=True)
    for offsets in ([0, 2], [1, 4], [0, 3, 2, 4], []):
        with pytest.raises(pd.UsageError, match="(?s)rise, and end with 4.*_offset is True"):
            last(torch.arange(4), torch.tensor(offsets, dtype=torch.int64))
    with pytest.raises(pd.UsageError, match="with offsets"):
        bag(torch.arange(4))
    with pytest.raises(pd.UsageError, match="not 'max'"):
        pt.ServedEmbeddingBag(table(job), job, mode="max")


def test_ids_are_whole_numbers(job):
    with pytest.raises(pd.UsageError, match="int64 or int32, not torch.float32"):
        pt.ServedEmbedding(table(job), job)(torch.tensor([1.0]))
    assert pt.ServedEmbedding(table(job), job)(torch.tensor([1], dtype=torch.int32)).shape == (1, 4)


def test_forwards_of_a_step_add_up(job):
    one, two = (pt.ServedEmbedding(table(job), job) for _ in range(2))
    optimizer = pt.ServedOptimizer(job)
    before = job.row("t", 1)
    for _ in range(2):  # two backward passes before one step
        (one(torch.tensor([1, 1])).sum() + 2 * two(torch.tensor([1, 7])).sum()).backward()
    optimizer.step(samples=8, cost=2.5)
    np.testing.assert_allclose(job.rows["t"][1], before - 0.1 * 2 * (2 + 2), rtol=1e-6)
    assert job.pushes == [(8, 2.5, {"t": 2})]


def test_a_step_without_rows_is_a_push(job):
    pt.ServedOptimizer(job).step(samples=5)
    assert job.pushes == [(5, None, {})]


def test_zero_grad_between_forward_and_backward_keeps_the_forward(job):
    served = pt.ServedEmbedding(table(job), job)
    optimizer = pt.ServedOptimizer(job)
    served(torch.tensor([4])).sum().backward()
    optimizer.zero_grad()  # this gradient is forgotten
    loss = served(torch.tensor([5])).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(samples=1)
    assert list(job.rows["t"]) == [5]


def test_gradients_can_be_unscaled_and_clipped(job):
    served, dense = pt.ServedEmbedding(table(job), job), nn.Linear(WIDTH, 1, bias=False)
    optimizer = pt.ServedOptimizer(job, torch.optim.SGD(dense.parameters(), lr=1.0))
    before, weight = job.row("t", 1), dense.weight.detach().clone()
    (1024 * dense(served(torch.tensor([1]))).sum()).backward()
    found = [each for group in optimizer.param_groups for each in group["params"]]
    assert len(found) == 2
    for each in found:
        each.grad /= 1024
    optimizer.step(samples=1)
    np.testing.assert_allclose(job.rows["t"][1], before - 0.1 * weight.numpy()[0], rtol=1e-5)
    np.testing.assert_allclose(dense.weight.detach().numpy()[0], weight.numpy()[0] - before,
                               rtol=1e-5)
    assert len(optimizer.param_groups[-1]["params"]) == 0  # the step has ended


def test_eval_reads_zeros_and_keeps_nothing(job):
    served = pt.ServedEmbedding(table(job), job)
    job.rows["t"][1] = np.ones(WIDTH, np.float32)
    served.eval()
    out = served(torch.tensor([1, 2]))
    assert out.tolist() == [[1.0] * WIDTH, [0.0] * WIDTH] and not out.requires_grad
    served.train()
    with torch.no_grad():
        served(torch.tensor([2]))
    assert [pull[2] for pull in job.pulls] == ["zero", "seed"]
    pt.ServedOptimizer(job).step(samples=1)
    assert job.pushes == [(1, None, {})]


def test_rows_of_the_callers_pull_are_used(job):
    served = pt.ServedEmbedding(table(job), job, padding_idx=8)
    ids = torch.tensor([[4, 8], [4, 6]])
    rows = job.pull("t", ids.numpy())
    out = served(ids, rows=rows) + served(ids, rows=rows)
    assert len(job.pulls) == 1
    out.sum().backward()
    pt.ServedOptimizer(job).step(samples=1)
    np.testing.assert_allclose(job.rows["t"][4], rows.values[0] - 0.1 * 4, rtol=1e-5)
    with pytest.raises(pd.UsageError, match="rows= are those of 4 ids, and the forward has 2"):
        served(ids[0], rows=rows)


def test_prefetched_rows_meet_their_forwards(job):
    one = pt.ServedEmbedding(table(job), job, padding_idx=0)
    two = pt.ServedEmbedding(table(job), job, padding_idx=0)
    other = pt.ServedEmbeddingBag(table(job, "u"), job, mode="sum")
    optimizer = pt.ServedOptimizer(job)
    batches = [(torch.tensor([1, 0, 2]), torch.tensor([2, 3]), torch.tensor([[5, 6]])),
               (torch.tensor([4, 4]), torch.tensor([0, 1]), torch.tensor([[5, 7]]))]
    ids = {"t": lambda batch: batch[:2], "u": lambda batch: batch[2]}
    seen = []
    for batch in optimizer.prefetch(batches, ids):
        seen.append(batch)
        pulls = len(job.pulls)
        (one(batch[0]).sum() + 2 * two(batch[1]).sum() + other(batch[2]).sum()).backward()
        assert len(job.pulls) == pulls
        optimizer.step(samples=2)
        assert len(job.pushes) == len(seen) - 1  # the last one is on its way
    assert len(seen) == 2 and len(job.pushes) == 2
    assert ("t", [1, 2, 3], "seed") in job.pulls and ("t", [1, 4], "seed") in job.pulls
    fresh = StandinJob(job.tables)
    for id, gradient in ((1, 1 + 2), (2, 1 + 2), (3, 2), (4, 2)):
        expected = fresh.row("t", id) - 0.1 * gradient
        np.testing.assert_allclose(job.rows["t"][id], expected, rtol=1e-5)
    assert 0 not in job.rows["t"]


def test_prefetch_of_other_ids_warns_and_pulls(job):
    served, optimizer = pt.ServedEmbedding(table(job), job), pt.ServedOptimizer(job)
    for batch in optimizer.prefetch([torch.tensor([1])], {"t": lambda batch: batch + 1}):
        with pytest.warns(UserWarning, match="table 't': the forward has other ids"):
            served(batch).sum().backward()
        optimizer.step(samples=1)
    assert list(job.rows["t"]) == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        served(torch.tensor([9]))  # outside of prefetch()


def test_prefetch_of_ids_that_are_no_whole_numbers_is_refused(job):
    optimizer = pt.ServedOptimizer(job)
    whole, parts = torch.tensor([1]), torch.tensor([1.5])
    for function in (lambda _: parts, lambda _: [whole, parts], lambda _: parts.bool()):
        with pytest.raises(pd.UsageError, match="table 't': ids are int64 or int32, not torch."):
            next(optimizer.prefetch([0], {"t": function}))
    assert job.pulls == []


def test_a_push_that_is_refused_steps_no_dense_part(job):
    served, dense = pt.ServedEmbedding(table(job), job), nn.Linear(WIDTH, 1)
    optimizer = pt.ServedOptimizer(job, torch.optim.SGD(dense.parameters(), lr=1.0))
    before = dense.weight.detach().clone()
    dense(served(torch.tensor([1]))).sum().backward()
    job.refuses = True
    with pytest.raises(ValueError, match="refused"):
        optimizer.step(samples=1)
    assert torch.equal(dense.weight, before)
    job.refuses = False
    optimizer.zero_grad()
    dense(served(torch.tensor([1]))).sum().backward()
    optimizer.step(samples=1)
    assert not torch.equal(dense.weight, before)


class Net(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.user = nn.Embedding(2000, 8, **options)
        self.words = nn.EmbeddingBag(3000, 4, mode="sum", sparse=True, padding_idx=0)
        self.small = nn.Embedding(10, 4)
        self.out = nn.Linear(16, 1)
        self.tower = nn.ModuleDict({"again": self.user})

    def forward(self, users, words, small):
        parts = [self.user(users), self.words(words), self.small(small)]
        return self.out(torch.cat(parts, 1))


def test_convert_replaces_what_is_large():
    torch.manual_seed(1)
    net = Net()
    with torch.no_grad():
        net.user.weight *= 0.25
    net.eval()
    tables = pt.convert_(net, min_rows=1000, names={"words": "tokens"}, entry_count=2)
    assert [(each.name, each.width, each.entry_count) for each in tables] == [
        ("user", 8, 2), ("tokens", 4, 2)]
    assert abs(tables[0].initial_std - 0.25) < 0.01 and abs(tables[1].initial_std - 1) < 0.03
    assert net.tower["again"] is net.user and isinstance(net.user, pt.ServedEmbedding)
    assert net.words.padding_idx == 0 and net.words.mode == "sum" and not net.words.training
    assert isinstance(net.small, nn.Embedding)
    # DistributedDataParallel and the dense optimizer see what is left.
    left = {"small.weight", "out.weight", "out.bias"}
    assert {name for name, _ in net.named_parameters()} == left == set(net.state_dict())
    with pytest.raises(pd.UsageError, match="the module has no job"):
        net.user(torch.tensor([1]))

    job = StandinJob({"user": 8, "tokens": 4})
    pt.attach(net.train(), job)
    out = net(torch.tensor([10**12, 5]), torch.tensor([[1, 0], [2, 3]]), torch.tensor([1, 2]))
    out.sum().backward()
    pt.ServedOptimizer(job).step(samples=2)
    assert job.pushes == [(2, None, {"user": 2, "tokens": 3})]


def test_convert_with_a_job_attaches():
    net = Net(device="meta")
    job = StandinJob({"user": 8, "words": 4})
    tables = pt.convert_(net, job, min_rows=1000, initial_std=0.5)
    assert [each.initial_std for each in tables] == [0.5, 0.5]
    assert net.user(torch.tensor([3])).shape == (1, 8)
    assert pt.convert_(Net(device="meta"), min_rows=1000)[0].initial_std == 1
    with pytest.raises(pd.UsageError, match="table 'user': the job has only words"):
        pt.convert_(Net(), StandinJob({"words": 4}), min_rows=1000)
    with pytest.raises(pd.UsageError, match="width is 8 in the model and 9 in the job"):
        pt.convert_(Net(), StandinJob({"user": 9, "words": 4}), min_rows=1000)


@pytest.mark.parametrize("spoil, why", [
    (lambda net: setattr(net.user, "max_norm", 1.0), "max_norm=1.0 changes rows in each forward"),
    (lambda net: setattr(net.user, "scale_grad_by_freq", True), "scale_grad_by_freq needs"),
    (lambda net: setattr(net.words, "mode", "max"), 'mode="max" is not there'),
    (lambda net: net.user.double(), "its weight is torch.float64"),
    (lambda net: net.user.requires_grad_(False), "its weight is frozen"),
    (lambda net: setattr(net.out, "weight", net.user.weight), "uses the same weight"),
])
def test_convert_names_what_it_refuses(spoil, why):
    net = Net()
    spoil(net)
    with pytest.raises(pd.UsageError, match=why) as refused:
        pt.convert_(net, min_rows=1000)
    assert refused.value.message.startswith(("module 'user' cannot", "module 'words' cannot"))
    assert type(net.user) is nn.Embedding and type(net.words) is nn.EmbeddingBag  # all or none


def test_convert_knows_the_names_of_modules():
    with pytest.raises(pd.UsageError, match="no module 'users'"):
        pt.convert_(Net(), min_rows=1000, names={"users": "user"})


def test_convert_refuses_a_name_of_two_widths_and_what_it_does_not_know():
    for options, why in (
        ({"names": {"user": "t", "words": "t"}}, "'words' has rows of 4, and table 't' .* 8"),
        ({"names": {"small": "tiny"}}, "module 'small' stays in the program"),
        ({"names": {"out": "t"}}, "module 'out' stays in the program"),
        ({"initial_sdt": 0.1}, r"convert_\(initial_sdt=\): a table has no such key"),
        ({"width": 3}, r"convert_\(width=\)"),
    ):
        net = Net()
        with pytest.raises(pd.UsageError, match=why):
            pt.convert_(net, min_rows=1000, **options)
        assert type(net.user) is nn.Embedding, options
    net = nn.Sequential(nn.Embedding(2000, 4), nn.EmbeddingBag(3000, 4))
    assert [each.name for each in pt.convert_(net, min_rows=1000, names={"0": "t", "1": "t"})] == [
        "t"]


def test_a_copy_of_a_module_that_keeps_the_job_says_what_to_do(fake):
    fake()
    with pd.join() as real:
        served = pt.ServedEmbedding(pd.Table("user", 4), real)
        assert copy.deepcopy(served)._job is None
        served.own = real
        with pytest.raises(pd.UsageError, match="(?s)a job cannot be copied.*out of the model"):
            copy.deepcopy(served)
        assert len(served(torch.tensor([1]))) == 1


def test_a_copy_has_no_job_until_it_is_attached(job):
    served = pt.ServedEmbedding(table(job), job)
    copied = copy.deepcopy(served)
    with pytest.raises(pd.UsageError, match="the module has no job"):
        copied(torch.tensor([1]))
    pt.attach(copied, job)
    assert torch.equal(copied(torch.tensor([1])), served(torch.tensor([1])))


def test_two_paddings_of_a_table_are_refused(job):
    pt.ServedEmbedding(table(job), job, padding_idx=0)
    with pytest.raises(pd.UsageError, match="padding_idx=0 and another None"):
        pt.ServedEmbedding(table(job), job)


def test_a_name_needs_the_job(job):
    assert pt.ServedEmbedding("u", job).table.width == 3
    with pytest.raises(pd.UsageError, match="its width is not known"):
        pt.ServedEmbedding("u")
    with pytest.raises(pd.UsageError, match="the job has only t, u"):
        pt.ServedEmbedding("v", job)


def test_a_snapshot_has_the_dense_part(job):
    net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    optimizer = pt.ServedOptimizer(job, torch.optim.Adam(net.parameters(), lr=0.1))
    net(torch.randn(5, 4)).square().sum().backward()
    optimizer.step(samples=5)
    assert optimizer.save(net, {"best": 0.5, "order": [3, 1]}) == "pass-00000"

    fresh = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))
    resumed = pt.ServedOptimizer(job, torch.optim.Adam(fresh.parameters(), lr=0.1))
    assert resumed.resume(fresh) is None  # the job begins anew
    job.resumed = pd.Resumed(1, 0, job.saved)
    assert resumed.resume(fresh) == {"best": 0.5, "order": [3, 1]}
    batch = torch.randn(5, 4)
    for model, each in ((net, optimizer), (fresh, resumed)):
        each.zero_grad()
        model(batch).square().sum().backward()
        each.step(samples=5)
    for name, value in net.state_dict().items():
        assert torch.equal(value, fresh.state_dict()[name]), name


def test_a_program_that_returns_alone_sends_the_job_back(job):
    job.resumed = pd.Resumed(0, 7, None, has_returned=True)
    with pytest.raises(ConnectionError, match="all trainers continue there"):
        pt.ServedOptimizer(job).resume(nn.Linear(1, 1))


def test_distributed_data_parallel_sees_only_what_is_left(job, tmp_path):
    dist = torch.distributed
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        net = Net()
        job.tables.update({"user": 8, "words": 4})
        job.rows.update({"user": {}, "words": {}})
        pt.convert_(net, job, min_rows=1000)
        parallel = nn.parallel.DistributedDataParallel(net)
        optimizer = pt.ServedOptimizer(job, torch.optim.SGD(parallel.parameters(), lr=0.1))
        before = net.out.weight.detach().clone()
        parallel(torch.tensor([1]), torch.tensor([[2]]), torch.tensor([3])).sum().backward()
        job.strategy, job.stop_asked = "async", True
        optimizer.step(samples=1)
        assert optimizer.stop_asked  # of any rank
        assert job.pushes == [(1, None, {"user": 1, "words": 1})]
        assert not torch.equal(net.out.weight, before)
        optimizer.save(parallel)
        job.resumed = pd.Resumed(1, 0, job.saved)
        optimizer.resume(parallel)
    finally:
        dist.destroy_process_group()
