"""read(): tables of real snapshots, and of a job that trains meanwhile."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import paddlectl as pd
from support.free_ports import FreePorts
from support.local_cluster import LocalCluster, program as cluster_program

WIDTH = 4
JOB = f"""
seed = 7
[data]
train = "rows.txt"
format = "libsvm"
[[layer]]
name = "row"
type = "embedding"
input = ["features"]
pooling = "mean"
size = {WIDTH}
weight = {{ name = "words", initial_std = 1.0, initial_mean = 0.25, sparse = true }}
[[layer]]
name = "score"
type = "fc"
input = ["row"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "label"
[optimizer]
method = "adagrad"
learning_rate = 0.1
[train]
passes = 2
batch_size = 8
"""
IDS = [1, 2, 3, 5, 8, 13, 21, 34, 2**40]
ABSENT = 7


@pytest.fixture
def engine(monkeypatch):
    """The engine `paddle`, without the variables of a job."""
    program = os.environ.get("PADDLE_PROGRAM")
    if not program:
        pytest.skip("PADDLE_PROGRAM does not name the engine")
    for name in list(os.environ):
        if name.startswith(("PADDLE_INIT_", "PADDLECTL_")) and name != "PADDLECTL_PROGRAM":
            monkeypatch.delenv(name)
    return program


@pytest.fixture
def job(tmp_path):
    """A folder with the job of one table, and its data."""
    (tmp_path / "job.toml").write_text(JOB)
    lines = [f"{i % 2} {IDS[i % 9]}:1 {IDS[(i * 5 + 1) % 9]}:1\n" for i in range(64)]
    (tmp_path / "rows.txt").write_text("".join(lines))
    return tmp_path


def run(engine, folder, *arguments):
    done = subprocess.run([engine, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def exported(engine, snapshot):
    """The rows of a snapshot by id, as `paddle export` writes them."""
    file = snapshot.parent / "words.npy"
    where = [f"--snapshot={snapshot}", "--parameter=words"]
    run(engine, snapshot.parent, "export", *where, "--format=npy", f"--output={file}")
    rows = np.load(file)
    return dict(zip(rows["id"].tolist(), rows["values"]))


@pytest.fixture
def snapshot(engine, job):
    run(engine, job, "train", "--local", "--config=job.toml", "--save_dir=save")
    return job / "save" / "pass-00001"


def test_rows_of_a_snapshot_are_those_of_export(engine, snapshot):
    rows = exported(engine, snapshot)
    assert sorted(rows) == IDS
    with pd.read(snapshot=str(snapshot)) as reader:
        assert reader.tables == {"words": WIDTH}
        assert reader.pass_ == 2
        asked = [IDS[8], 3, 3, 1]
        values = reader.pull("words", asked)
        assert values.dtype == np.float32 and values.shape == (4, WIDTH)
        np.testing.assert_array_equal(values, [rows[each] for each in asked])
        shaped = reader.pull("words", np.array([[1, 2], [3, 5]]))
        assert shaped.shape == (2, 2, WIDTH)
        np.testing.assert_array_equal(shaped[1, 0], rows[3])
        assert reader.pull("words", []).shape == (0, WIDTH)


def test_absent_rows_read_as_in_tests_or_as_in_training(snapshot):
    with pd.read(snapshot=str(snapshot)) as reader:
        np.testing.assert_array_equal(
            reader.pull("words", [ABSENT]), np.full((1, WIDTH), 0.25, np.float32)
        )
        drawn = reader.pull("words", [ABSENT, 1], absent="seed")
        assert not np.array_equal(drawn[0], np.full(WIDTH, 0.25, np.float32))
        np.testing.assert_array_equal(drawn[1], reader.pull("words", [1])[0])


def test_many_ids_are_read_in_pieces_that_fit_the_memory(engine, snapshot):
    rows = exported(engine, snapshot)
    with pd.read(snapshot=str(snapshot), memory=4096) as reader:
        asked = np.resize(np.array(IDS, np.uint64), 5000)
        np.testing.assert_array_equal(
            reader.pull("words", asked), [rows[int(each)] for each in asked]
        )
    with pd.read(snapshot=str(snapshot), memory=256) as reader:
        with pytest.raises(pd.ResourceError, match="shared memory 256"):
            reader.pull("words", [1])


def test_threads_share_a_reader(snapshot):
    with pd.read(snapshot=str(snapshot)) as reader:
        expected = reader.pull("words", IDS)
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(reader.pull("words", IDS)))
            for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(results) == 8
        for each in results:
            np.testing.assert_array_equal(each, expected)


def test_wrong_arguments_say_what_to_do(snapshot):
    with pytest.raises(pd.UsageError, match="a snapshot or an address"):
        pd.read()
    with pytest.raises(pd.UsageError, match="a snapshot or an address"):
        pd.read(snapshot=str(snapshot), address="127.0.0.1:7164")
    with pytest.raises(pd.UsageError, match="contains pass-00000, pass-00001"):
        pd.read(snapshot=str(snapshot.parent))
    with pd.read(snapshot=str(snapshot)) as reader:
        with pytest.raises(pd.UsageError, match="no table 'word'"):
            reader.pull("word", [1])
        with pytest.raises(pd.UsageError, match="use 'zero' or 'seed'"):
            reader.pull("words", [1], absent="none")
        with pytest.raises(pd.UsageError, match="-1 is no id"):
            reader.pull("words", [-1])
        assert reader.pull("words", [1]).shape == (1, WIDTH)
    with pytest.raises(pd.UsageError, match="closed"):
        reader.pull("words", [1])


def test_a_damaged_snapshot_is_an_error_of_data(snapshot):
    table = next(snapshot.glob("words.sparse-*"))
    content = bytearray(table.read_bytes())
    content[-20] ^= 1
    table.write_bytes(content)
    with pytest.raises(pd.DataError, match="words"):
        pd.read(snapshot=str(snapshot))


def test_an_address_where_nothing_listens_is_unreachable(engine, port, monkeypatch):
    monkeypatch.setenv("PADDLE_INIT_CONNECT_TIMEOUT", "1")
    with pytest.raises(pd.UnreachableError, match=f"127.0.0.1:{port}"):
        pd.read(address=f"127.0.0.1:{port}")


@pytest.fixture
def port():
    """The first of some free ports."""
    ports = FreePorts()
    yield ports.first
    ports.close()


class Pserver:
    def __init__(self, engine, folder, port):
        self.process = subprocess.Popen(
            [engine, "pserver", f"--port={port}", "--ports_num=1", "--ports_num_for_sparse=2",
             "--num_gradient_servers=1"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        assert self.process.stdout.readline().startswith("READY")

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def test_rows_of_a_job_that_trains_are_read_meanwhile(engine, job, port):
    (job / "rows.txt").write_text((job / "rows.txt").read_text() * 16)
    (job / "job.toml").write_text(JOB.replace("passes = 2", "passes = 20"))
    server = Pserver(engine, job, port)
    trainer = None
    try:
        trainer = subprocess.Popen(
            [engine, "train", "--config=job.toml", f"--pservers=127.0.0.1:{port}", "--ports_num=1",
             "--ports_num_for_sparse=2", "--save_dir=save"],
            cwd=job, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        with pd.read(address=f"127.0.0.1:{port}") as reader:
            assert reader.tables == {"words": WIDTH}
            seen = []
            while trainer.poll() is None and len(seen) < 200:
                values = reader.pull("words", IDS)
                assert np.isfinite(values).all()
                if not seen or not np.array_equal(seen[-1], values):
                    seen.append(values)
            assert len(seen) > 2, "the values change while the job trains"
            # The reader is still there, and the job ends without it.
            assert trainer.wait(200) == 0
            assert server.process.wait(60) == 0
        rows = exported(engine, sorted((job / "save").glob("pass-*"))[-1])
        assert sorted(rows) == IDS
        assert np.isfinite(list(rows.values())).all()
    finally:
        if trainer is not None:
            trainer.kill()
            trainer.wait()
        server.end()


TRAINER = """
import sys
import numpy as np
import paddlectl as pd
with pd.join(tables=[pd.Table("user", width=3, initial_std=0.5)], optimizer=pd.sgd(0.1)) as job:
    rows = job.pull("user", [1, 2, 3])
    job.push({"user": (rows, np.ones((3, 3), np.float32))}, samples=1)
    print(job.pull("user", [1, 2, 3, 9]).values.tobytes().hex(), flush=True)
    sys.stdin.readline()
    job.finish_pass()
"""


def start_trainer(port):
    environment = {
        **os.environ,
        "PYTHONPATH": str(pathlib.Path(pd.__file__).parents[1]),
        "PADDLE_INIT_PSERVERS": f"127.0.0.1:{port}",
        "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "2",
    }
    return subprocess.Popen(
        [sys.executable, "-c", TRAINER], env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )


def end_trainer(program):
    if program is None:
        return
    program.kill()
    program.wait()
    program.stdin.close()
    program.stdout.close()


def test_a_reader_has_the_bits_that_the_trainer_has(engine, tmp_path, port):
    server = Pserver(engine, tmp_path, port)
    program = start_trainer(port)
    try:
        line = program.stdout.readline().strip()
        trained = np.frombuffer(bytes.fromhex(line), np.float32).reshape(4, 3)
        with pd.read(address=f"127.0.0.1:{port}") as reader:
            assert reader.tables == {"user": 3}
            np.testing.assert_array_equal(reader.pull("user", [1, 2, 3]), trained[:3])
            np.testing.assert_array_equal(reader.pull("user", [9]), np.zeros((1, 3), np.float32))
            np.testing.assert_array_equal(reader.pull("user", [9], absent="seed"), trained[3:])
            with pytest.raises(pd.UsageError, match="the tables of its snapshot or job"):
                reader._channel.wait(
                    reader._channel.send(
                        {"op": "hello", "version": 1, "job": "[[table]]\nname = 'a'\nwidth = 1\n"},
                        lambda answer: answer,
                    )
                )
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.wait(60) == 0
        assert server.process.wait(60) == 0
    finally:
        end_trainer(program)
        server.end()


def test_a_reader_waits_for_the_jobs_values(engine, tmp_path, port):
    server = Pserver(engine, tmp_path, port)
    found = []

    def read():
        with pd.read(address=[f"127.0.0.1:{port}"]) as reader:
            found.append(reader.pull("user", [1, 2, 3]))

    waiter = threading.Thread(target=read)
    program = None
    try:
        waiter.start()
        time.sleep(0.3)
        assert not found
        program = start_trainer(port)
        trained = np.frombuffer(bytes.fromhex(program.stdout.readline().strip()), np.float32)
        waiter.join(60)
        assert found[0].shape == (3, 3)
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.wait(60) == 0
        assert np.isfinite(trained).all()
    finally:
        server.end()
        waiter.join()
        end_trainer(program)


def test_a_job_of_paddlectl_has_keys_for_readers(engine, tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path, nodes=1)
    cluster.write("shop/job.toml", JOB.replace("passes = 2", "passes = 1000000"))
    cluster.write("shop/rows.txt", "".join(f"{i % 2} {each}:1\n" for i, each in enumerate(IDS)))
    try:
        run(cluster_program(), tmp_path, "train", "--cluster=cluster.toml", "--trainers=1",
            "--pservers=1", "--detach", "--name=shop-1", "shop")
        keys = tmp_path / "nodes" / "t" / "n-0" / "jobs" / "shop-1" / "keys"
        first = re.search(r"^port = (\d+)$", (tmp_path / "cluster.toml").read_text(), re.M)
        where = {"address": f"127.0.0.1:{first[1]}", "job": "shop-1"}
        with pd.read(**where, key_file=str(keys / "reader")) as reader:
            assert reader.tables == {"words": WIDTH}
            assert np.isfinite(reader.pull("words", IDS)).all()
        with pytest.raises(pd.AuthError, match="that of another process"):
            pd.read(**where, key_file=str(keys / "trainer-0"))
        monkeypatch.setenv("PADDLE_INIT_CONNECT_TIMEOUT", "2")
        with pytest.raises(pd.AuthError):
            pd.read(**where)  # with the public key of jobs that are started by hand
        with pytest.raises(pd.AuthError, match="another job"):
            pd.read(**{**where, "job": "shop-2"}, key_file=str(keys / "reader"))
    finally:
        cluster.end()


def test_a_reader_reads_a_snapshot_or_a_job_not_both(engine, tmp_path, monkeypatch):
    monkeypatch.setenv("PADDLE_INIT_READ", "1")
    with pytest.raises(pd.SidecarError, match="read a snapshot, or a running job"):
        pd.read(snapshot=str(tmp_path))
