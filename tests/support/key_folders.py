"""The folders in memory where agents keep the keys of a job until it ends: none may outlive it."""
import glob
import os
import time

MEMORY = "/dev/shm/paddlectl-*"
SETTLE_SECONDS = 10


def key_folders():
    return set(glob.glob(MEMORY))


def folders_of_running_jobs():
    """Of all on this machine: a supervisor has its node's folder among its arguments, and each job there has a link."""
    found = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().decode("utf8", "replace").split("\0")
            if len(arguments) > 3 and arguments[1] == "supervise":
                found.update(os.readlink(link) for link in glob.glob(f"/proc/{entry}/root{arguments[2]}/jobs/*/keys")
                             if os.path.islink(link))
        except OSError:  # it has ended
            continue
    return found


def left_since(before):
    """Those that are new and stay though no job that runs has them: other tests may run beside this one."""
    end = time.time() + SETTLE_SECONDS
    left = key_folders() - before
    while left and time.time() < end:
        left &= key_folders() - folders_of_running_jobs()
        time.sleep(0.1)
    return sorted(left)
