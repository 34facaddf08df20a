"""Python trainers of tables on real pservers: bits, losses of processes, and the ledger."""
import json
import os

import pytest

from support.training_job import TrainingJob

np = pytest.importorskip("numpy", reason="there is no python3-numpy")

import support.train_tables as program  # noqa: E402

TRAINERS = 2
PASSES, STEPS = program.defaults["passes"], program.defaults["steps"]


@pytest.fixture
def jobs(tmp_path):
    """Makes jobs, and ends them after the test."""
    made = []

    def make(name="job", **shape):
        made.append(TrainingJob(tmp_path / name, **shape))
        return made[-1]

    yield make
    for job in made:
        job.end()


def rows(job, file):
    with np.load(job.folder / file) as arrays:
        return {table: arrays[table] for table in program.WIDTHS}


def bits(tables):
    return {table: values.view(np.uint32).tolist() for table, values in tables.items()}


class Reference:
    """The updates of engine/math/update_rules.h in float32, where each operation rounds once."""

    def __init__(self, initial, optimizer, rate):
        self.values = {table: values.copy() for table, values in initial.items()}
        self.squares = {table: np.zeros_like(values) for table, values in initial.items()}
        self.optimizer = optimizer
        self.rate = np.float32(rate)

    def update(self, table, ids, gradient):
        step_rate = self.rate
        if self.optimizer == "adagrad":
            self.squares[table][ids] += gradient * gradient
            step_rate = self.rate / (np.sqrt(self.squares[table][ids]) + np.float32(1e-6))
        self.values[table][ids] += -(step_rate * gradient)

    def round(self, pass_, step):
        """A sync round: the mean over trainers, weighted by samples, added in their order."""
        samples = [program.samples_of(trainer, pass_, step) for trainer in range(TRAINERS)]
        weights = [np.float32(each / sum(samples)) for each in samples]
        means = {table: np.zeros_like(values) for table, values in self.values.items()}
        named = {table: set() for table in self.values}
        for trainer in range(TRAINERS):
            for table, ids in program.ids_of(trainer, pass_, step).items():
                ids = np.unique(ids)
                gradient = program.gradient(self.values[table][ids], table, trainer, pass_, step,
                                            False)
                means[table][ids] += weights[trainer] * gradient
                named[table].update(ids.tolist())
        for table, ids in named.items():
            ids = np.array(sorted(ids))
            self.update(table, ids, means[table][ids])

    def train(self):
        for pass_ in range(PASSES):
            for step in range(STEPS):
                self.round(pass_, step)
        return self.values


def reference(job, optimizer):
    return bits(Reference(rows(job, "initial.npz"), optimizer, program.defaults["rate"]).train())


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_rows_equal_numpys_to_the_last_bit_and_twice(jobs, optimizer):
    finals = []
    for name in ("one", "two"):
        job = jobs(name)
        assert job.run(optimizer=optimizer) == [0, 0], job.logs()
        assert job.wait_pservers() == [0, 0], job.logs()
        assert not job.leftovers()
        finals.append(bits(rows(job, "final.npz")))
    assert finals[0] == reference(job, optimizer)
    assert finals[1] == finals[0]
    samples = sum(program.samples_of(trainer, 0, step)
                  for trainer in range(TRAINERS) for step in range(STEPS))
    cost = TRAINERS * STEPS * 1.5 / samples
    assert f"pass 1: {samples} samples, cost {cost:g}, " in job.log("trainer-0")
    lines = [json.loads(line) for line in open(job.folder / "metrics-0.jsonl")]
    assert [line["kind"] for line in lines] == ["pass", "save"] * PASSES
    assert [line["path"] for line in lines[1::2]] == ["pass-00000", "pass-00001"]
    assert [line["pass"] for line in lines] == [0, 0, 1, 1]
    # A save is of no batch: a cost that is not finite would be taken for divergence.
    assert all("cost" not in line for line in lines[1::2])
    assert lines[0]["total_samples"] == samples


@pytest.mark.parametrize("where", ["before", "within", "after", "sidecar"])
@pytest.mark.parametrize("place", [[0, 0, 0], [1, 1, 13], [0, 1, STEPS - 1]])
def test_a_trainer_that_was_killed_comes_back_to_the_same_bits(jobs, where, place):
    job = jobs()
    assert job.run(restarts=1, dies=[*place, where]) == [0, 0], job.logs()
    assert job.wait_pservers() == [0, 0], job.logs()
    log = job.log(f"trainer-{place[0]}")
    assert log.count("joined at pass") == 2, log
    assert not job.leftovers()
    assert bits(rows(job, "final.npz")) == reference(job, "sgd")


@pytest.mark.parametrize("pservers", [1, 3])
def test_a_stopped_job_goes_on_with_other_pservers_to_the_same_bits(jobs, pservers):
    job = jobs()
    assert job.run(stops=[1, 1, 9]) == [75, 75], job.logs()
    job.wait_pservers()
    assert (job.folder / "output" / "pass-00001-000010" / "MANIFEST").exists(), job.logs()
    job.forget_incarnations()
    job.start_pservers(pservers)
    assert job.run(resume=True, stops=[1, 1, 9]) == [0, 0], job.logs()
    assert job.wait_pservers() == [0] * pservers, job.logs()
    for rank in range(TRAINERS):
        log = job.log(f"trainer-{rank}")
        assert "stopped at pass 1 batch 10\n" in log
        state = b"stopped in pass 1" if rank == 0 else None
        assert f"joined at pass 1 batch 10, state {state}" in log, log
    assert bits(rows(job, "final.npz")) == reference(job, "sgd")


def test_rows_that_are_pulled_ahead_give_other_bits_but_the_same_twice(jobs):
    finals = []
    for name in ("one", "two"):
        job = jobs(name)
        assert job.run(depth=1) == [0, 0], job.logs()
        finals.append(bits(rows(job, "final.npz")))
    assert finals[0] == finals[1] != reference(job, "sgd")


def ledger(share):
    """Minus the sum of all pushes, which whole numbers make exact."""
    sums = {table: np.zeros((program.IDS, width), np.float32)
            for table, width in program.WIDTHS.items()}
    for pass_ in range(PASSES):
        for step in range(STEPS):
            for trainer in range(TRAINERS):
                for table, ids in program.ids_of(trainer, pass_, step).items():
                    ids = np.unique(ids)
                    values = np.zeros((len(ids), program.WIDTHS[table]), np.float32)
                    sums[table][ids] -= program.gradient(values, table, trainer, pass_, step, True)
    return {table: (values * np.float32(share)).tolist() for table, values in sums.items()}


STRATEGIES = [("async", 1), ("half_async", 1),
              ({"sparse": "half_async", "max_merge": 4, "merge": "sum"}, 1),
              ({"sparse": "geo", "update_frequency": 7}, 0.5)]


@pytest.mark.parametrize("strategy, share", STRATEGIES, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("dies", [[], [1, 1, 13, "before"], [0, 0, 20, "within"]], ids=str)
def test_the_ledger_is_exact(jobs, strategy, share, dies):
    job = jobs()
    codes = job.run(restarts=1 if dies else 0, strategy=strategy, dies=dies, rate=1,
                    initial_std=0, whole=True)
    assert codes == [0, 0], job.logs()
    assert job.wait_pservers() == [0, 0], job.logs()
    final = {table: values.tolist() for table, values in rows(job, "final.npz").items()}
    assert final == ledger(share)


@pytest.mark.parametrize("strategy, share", STRATEGIES, ids=lambda each: str(each)[:40])
def test_the_ledger_of_a_job_that_was_stopped_is_exact(jobs, strategy, share):
    job = jobs()
    arguments = {"strategy": strategy, "rate": 1, "initial_std": 0, "whole": True,
                 "stops": [1, 1, 9], "pause": 0.01}
    assert job.run(**arguments) == [75, 75], job.logs()
    job.wait_pservers()
    job.forget_incarnations()
    job.start_pservers(3)
    assert job.run(resume=True, **arguments) == [0, 0], job.logs()
    final = {table: values.tolist() for table, values in rows(job, "final.npz").items()}
    assert final == ledger(share)


@pytest.mark.parametrize("strategy, share", [("sync", None), *STRATEGIES],
                         ids=lambda each: str(each)[:40])
def test_trainers_that_are_killed_at_any_moment_lose_and_repeat_nothing(jobs, strategy, share):
    job = jobs()
    whole = {"rate": 1, "initial_std": 0, "whole": True} if share else {}
    codes = job.run_under_kills(6, len(str(strategy)), strategy=strategy, pause=0.04, **whole)
    assert codes == [0, 0], job.logs()
    assert job.wait_pservers() == [0, 0], job.logs()
    assert not job.leftovers()
    if share:
        final = {table: values.tolist() for table, values in rows(job, "final.npz").items()}
        assert final == ledger(share)
    else:
        assert bits(rows(job, "final.npz")) == reference(job, "sgd")


SHARES = """
with pd.join(config="job.toml") as job:
    assert job.tables == {"user": 4}, job.tables
    assert job.strategy == "async", job.strategy
    print(json.dumps([job.share(), job.share("other/*.txt"), job.share("none/*")]))
    rows = job.pull("user", np.arange(3))
    job.push({"user": (rows, np.ones_like(rows.values))}, samples=2)
    tests = job.pull("user", [0, 77], absent="zero")
    assert tests.values[1].tolist() == [0.25] * 4, "77 has no row"
    assert (tests.values[0] != 0.25).all()
    job.finish_pass()
"""


def test_tables_of_job_toml_and_the_shares_of_files(jobs):
    job = jobs()
    job.write_program(SHARES)
    (job.folder / "job.toml").write_text(
        '[trainer]\ncommand = ["python3", "program.py"]\n[data]\ntrain = "data/t.csv-*"\n'
        '[[table]]\nname = "user"\nwidth = 4\ninitial_mean = 0.25\n'
        '[optimizer]\nlearning_rate = 1\n[strategy]\nsparse = "async"\n')
    for name in ("data/t.csv-0", "data/t.csv-1", "data/t.csv-2", "other/a.txt", "other/b.txt"):
        (job.folder / name).parent.mkdir(exist_ok=True)
        (job.folder / name).write_text("")
    assert job.run() == [0, 0], job.logs()
    for rank, mine in ((0, ["data/t.csv-0", "data/t.csv-2"]), (1, ["data/t.csv-1"])):
        lines = job.log(f"trainer-{rank}").splitlines()
        numbered, plain, none = next(json.loads(line) for line in lines if line.startswith("[["))
        assert list(map(os.path.normpath, numbered)) == mine
        assert list(map(os.path.normpath, plain)) == ["other/a.txt", "other/b.txt"]
        assert none == []
