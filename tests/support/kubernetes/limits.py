"""Limits of containers: control groups, of version 1 or 2, where this machine lets us make them."""
import os
import time


class Limits:
    """Makes groups below those of this process, all under one name, so that they can be found again by it."""

    def __init__(self, name):
        self.roots = {}  # by controller; "unified": version 2
        for controller, parent in self.parents():
            try:
                root = f"{parent}/{name}"
                os.makedirs(root, exist_ok=True)
                if controller == "unified":
                    write(f"{root}/cgroup.subtree_control", "+memory +cpu")
                self.roots[controller] = root
            except OSError:
                continue

    @staticmethod
    def parents():
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            with open("/sys/fs/cgroup/cgroup.controllers", encoding="ascii") as file:
                return [("unified", "/sys/fs/cgroup")] if "memory" in file.read() else []
        found = []
        with open("/proc/self/cgroup", encoding="ascii") as file:
            for line in file:
                _, controllers, path = line.strip().split(":", 2)
                for controller in ("memory", "cpu"):
                    parent = f"/sys/fs/cgroup/{controller}{path.rstrip('/')}"
                    if controller in controllers.split(",") and os.path.isdir(parent):
                        found.append((controller, parent))
        return found

    def make(self, name, cpu, memory):
        """The groups of one container, as {controller: folder}; `cpu` in cores and `memory` in bytes may be none."""
        groups = {}
        for controller, root in self.roots.items():
            folder = groups[controller] = f"{root}/{name}"
            os.makedirs(folder, exist_ok=True)
            if memory and controller != "cpu":
                write(f"{folder}/" + ("memory.max" if controller == "unified" else "memory.limit_in_bytes"), str(int(memory)))
            if memory and controller == "unified":
                write(f"{folder}/memory.oom.group", "1")  # as kubelet does
            if cpu and controller == "unified":
                write(f"{folder}/cpu.max", f"{int(cpu * 100000)} 100000")
            elif cpu and controller == "cpu":
                write(f"{folder}/cpu.cfs_quota_us", str(int(cpu * 100000)))
        return groups

    @staticmethod
    def out_of_memory_kills(groups):
        for controller, file in (("memory", "memory.oom_control"), ("unified", "memory.events")):
            if controller in groups:
                try:
                    with open(f"{groups[controller]}/{file}", encoding="ascii") as text:
                        return sum(int(line.split()[1]) for line in text if line.startswith("oom_kill "))
                except OSError:
                    return 0
        return 0


def remove_group(folder, tries=1):
    """Removes a group and those below it; tries again for a while if processes there are still ending."""
    if os.path.isdir(folder):
        for entry in list(os.scandir(folder)):
            if entry.is_dir():
                remove_group(entry.path, tries)
        for _ in range(tries):
            try:
                return os.rmdir(folder)
            except OSError:
                time.sleep(0.02 if tries > 1 else 0)
    return None


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
