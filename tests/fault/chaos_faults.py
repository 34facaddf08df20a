"""The faults of tests/fault/chaos: how each is made, for how long, and whom it hits."""
import dataclasses
import glob
import os
import signal
import time
import typing

from chaos_job import kill, processes_below

MEMORY_GROUPS = "/sys/fs/cgroup/memory"
PROCESSOR_GROUPS = "/sys/fs/cgroup/cpu"
SHORT, LONG = (0.5, 20), (2, 60)  # seconds


@dataclasses.dataclass
class Wound:
    """What a fault did: the victims by role, and how it ends if it does not end by itself."""
    victims: list
    told: str = ""
    seconds: float = 0
    undo: typing.Callable = None
    pid: int = 0  # it also ends when this process does
    may_end_job: bool = False  # what needs `train --resume` by hand
    killed: float = 0  # when its victims were, whose supervisors live
    fault: str = ""  # what it was instead of what was asked for


def of_kind(job, kind):
    return sorted(role for role in job.engines() if role.startswith(kind))


def kill_engines(job, roles):
    engines = job.engines()
    killed = kill([engines[role].pid for role in roles if role in engines])
    return Wound(list(roles), f"kill -9 of {', '.join(roles)}", killed=killed)


def kill_trainer(job, rng):
    return kill_engines(job, [rng.choice(of_kind(job, "trainer"))])


def kill_pserver(job, rng):
    return kill_engines(job, [rng.choice(of_kind(job, "pserver"))])


def kill_several(job, rng):
    roles = sorted(job.engines())
    return kill_engines(job, rng.sample(roles, min(len(roles), rng.randint(2, 3))))


def kill_all(job, _):
    return kill_engines(job, sorted(job.engines()))


def kill_pserver_that_is_not_watched(job, rng):
    """While trainer 0 waits at the first pserver for another trainer, and nobody reads what the last pserver sends."""
    late = of_kind(job, "trainer")[-1]
    pserver = of_kind(job, "pserver")[-1]
    wound = stop(job, late, 0)
    time.sleep(rng.uniform(3, 5))
    killed = kill_engines(job, [pserver]).killed
    time.sleep(0.5)
    wound.undo()
    return Wound([pserver], f"kill -9 of {pserver} while the others wait for {late}", killed=killed)


def stop(job, role, seconds):
    pid = job.engines()[role].pid
    os.kill(pid, signal.SIGSTOP)

    def let_go_on():
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:  # killed as one that hangs
            pass

    return Wound([role], f"SIGSTOP of {role}", seconds, let_go_on, pid)


def stop_trainer(job, rng):
    return stop(job, rng.choice(of_kind(job, "trainer")), rng.uniform(*SHORT))


def stop_pserver(job, rng):
    return stop(job, rng.choice(of_kind(job, "pserver")), rng.uniform(*SHORT))


def pair(job, rng):
    """A trainer, its node, and the node of a pserver, or else a trainer, that is another one."""
    engines = job.engines()
    trainers = [role for role in sorted(engines) if role.startswith("trainer")]
    peers = [one.node for role, one in sorted(engines.items()) if role.startswith("pserver")] or [engines[one].node for one in trainers]
    trainer = rng.choice(trainers)
    node = engines[trainer].node
    return trainer, node, rng.choice([one for one in peers if one != node])


def cut_both_ways(job, rng):
    trainer, one, other = pair(job, rng)
    job.nodes.drop(one, other)
    job.nodes.drop(other, one)

    def heal():
        job.nodes.deliver(one, other)
        job.nodes.deliver(other, one)

    return Wound([trainer], f"n{one} and n{other} do not reach each other", rng.uniform(*LONG), heal)


def cut_one_way(job, rng):
    trainer, one, other = pair(job, rng)
    sender, receiver = rng.sample([one, other], 2)
    job.nodes.drop(sender, receiver)
    return Wound([trainer], f"n{sender} does not reach n{receiver}", rng.uniform(*LONG), lambda: job.nodes.deliver(sender, receiver))


def cut_node(job, rng):
    engines = job.engines()
    node = rng.choice(sorted({one.node for one in engines.values()}))
    job.nodes.cut_off(node)
    return Wound([role for role, one in sorted(engines.items()) if one.node == node], f"n{node} is cut off, for paddlectl too",
                 rng.uniform(*LONG), lambda: job.nodes.restore(node), may_end_job=True)


def slow_link(job, rng):
    trainer = rng.choice(of_kind(job, "trainer"))  # which looks where each is
    node = job.node_of[trainer]
    rate = rng.choice(("1mbit", "4mbit"))
    job.nodes.slow_down(node, rate)
    return Wound([trainer], f"n{node} has {rate}/s", rng.uniform(5, 20), lambda: job.nodes.restore(node))


def slow_processor(job, rng):
    trainer = rng.choice(of_kind(job, "trainer"))
    group = f"{PROCESSOR_GROUPS}/chaos-{os.getpid()}"
    os.makedirs(group, exist_ok=True)
    write(f"{group}/cpu.cfs_quota_us", 10000)  # of 100,000
    pid = job.engines()[trainer].pid
    write(f"{group}/cgroup.procs", pid)

    def undo():
        try:
            write(f"{PROCESSOR_GROUPS}/cgroup.procs", pid)
        except ProcessLookupError:
            pass
        remove_group(group)

    return Wound([trainer], f"{trainer} has a tenth of a core", rng.uniform(5, 20), undo)


def full_disk(job, rng):
    node = rng.choice(sorted({one.node for one in job.engines().values()}))
    job.nodes.fill_disk(node)
    return Wound([role for role in sorted(job.node_of) if job.node_of[role] == node], f"the disk of n{node} is full", rng.uniform(2, 20),
                 lambda: job.nodes.free_disk(node))


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def remove_group(group):
    for _ in range(100):
        try:
            return os.rmdir(group)
        except OSError:  # a process of it is ending
            time.sleep(0.05)


def memory_limit(job, rng):
    """No more than it has now, so that its next pages are too many."""
    role = rng.choice(sorted(job.engines()))
    pid = job.engines()[role].pid
    group = f"{MEMORY_GROUPS}/chaos-{os.getpid()}"
    os.makedirs(group, exist_ok=True)
    write(f"{group}/memory.limit_in_bytes", 128 << 10)  # its present pages are not counted
    write(f"{group}/cgroup.procs", pid)

    def undo():
        try:
            write(f"{MEMORY_GROUPS}/cgroup.procs", pid)
        except ProcessLookupError:
            pass
        remove_group(group)

    return Wound([role], f"{role} gets no more memory", rng.uniform(3, 10), undo, pid)


def kill_paddlectl(job, _):
    job.kill_follower()
    return Wound([], "kill -9 of paddlectl")


def kill_supervisor(job, rng):
    role = rng.choice(sorted(job.engines()))
    kill([job.supervisors()[role].pid])
    return Wound([role], f"kill -9 of the supervisor of {role}", may_end_job=True)


def kill_everything(job):
    job.kill_follower()
    roles = sorted(job.engines())
    kill([one.pid for one in processes_below(f"{job.nodes.folder}/disks")])
    return roles


def lose_power(job, _):
    return Wound(kill_everything(job), "kill -9 of all, supervisors and agents too", may_end_job=True)


def damage_snapshot(job, rng):
    roles = kill_everything(job)
    snapshots = sorted(one for one in glob.glob(f"{job.nodes.workdir(job.node_of['trainer-0'])}/*/*/jobs/{job.name}/output/pass-?????")
                       if os.path.exists(f"{one}/MANIFEST"))
    if len(snapshots) < 2:
        return Wound(roles, "kill -9 of all; there was no snapshot to damage", may_end_job=True, fault="power lost")
    files = sorted(f"{folder}/{name}" for folder, _, names in os.walk(snapshots[-1]) for name in names if name != "done")
    path = rng.choice([one for one in files if os.path.getsize(one) > 0])
    at = rng.randrange(os.path.getsize(path))
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    name = os.path.relpath(path, os.path.dirname(snapshots[-1]))
    return Wound(roles, f"kill -9 of all, and a bit of {name} turned over", may_end_job=True)


FAULTS = {
    "trainer killed": kill_trainer,
    "pserver killed": kill_pserver,
    "pserver killed unwatched": kill_pserver_that_is_not_watched,
    "several killed": kill_several,
    "all killed": kill_all,
    "trainer stopped": stop_trainer,
    "pserver stopped": stop_pserver,
    "link cut both ways": cut_both_ways,
    "link cut one way": cut_one_way,
    "node cut off": cut_node,
    "slow link": slow_link,
    "slow processor": slow_processor,
    "disk full": full_disk,
    "memory used up": memory_limit,
    "paddlectl killed": kill_paddlectl,
    "supervisor killed": kill_supervisor,
    "power lost": lose_power,
    "snapshot damaged": damage_snapshot,
}
# A clock of one node cannot be changed here: the programs are static, so that LD_PRELOAD does nothing, the machine's clock is
# everybody's, and a time namespace has the clock since boot only.
SKIPPED = {"wall clock stepped": "the programs are static, so nothing can be put between them and the clock that all share"}


def missing(name):
    """Why this machine cannot make the fault; empty if it can."""
    folder = {"memory used up": MEMORY_GROUPS, "slow processor": PROCESSOR_GROUPS}.get(name)
    return f"no {folder} (cgroup v1) to write to" if folder and not os.access(f"{folder}/cgroup.procs", os.W_OK) else ""
