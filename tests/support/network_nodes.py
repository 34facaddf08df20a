"""Nodes that are network namespaces, each with its own sshd, disk and link: for scripts that run paddlectl and break things. Needs root."""
import os
import shutil
import signal
import subprocess
import time

from sshd_nodes import key, last_words, start_sshd

NETWORK = "10.77.0."
NOWHERE = "02:00:00:00:00:99"  # a link address that nobody has
DISK_MIB = 400
SSHD_OPTIONS = ("AuthorizedKeysFile={folder}/authorized_keys", "HostKey={folder}/host_key", "PidFile=none", "UsePAM=no", "UseDNS=no",
                "StrictModes=no", "PrintMotd=no", "PasswordAuthentication=no", "MaxStartups=100", "PermitRootLogin=yes",
                "SetEnv=SHLVL=2")  # so that bash reads no start-up file


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def obstacle():
    """Why this machine cannot have such nodes; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces and disks of a limited size need root"
    missing = [name for name in ("ip", "tc", "mount", "ssh-keygen") if shutil.which(name) is None]
    if not os.path.exists("/usr/sbin/sshd"):
        missing.append("sshd")
    return f"not installed: {', '.join(missing)}" if missing else ""


class NetworkNodes:
    """Namespaces that share a bridge, in a namespace of its own where paddlectl runs; keys and cluster.toml are in `folder`."""

    def __init__(self, folder, roles, settings="", disk_mib=DISK_MIB):
        self.folder, self.count, self.disk_mib = folder, len(roles), disk_mib
        self.names = [f"n{i}" for i in range(self.count)]
        self.hub = f"chaos-{os.getpid()}-hub"
        self.servers = []
        os.mkdir(f"{folder}/ssh", 0o700)
        host_key = key(f"{folder}/host_key")
        with open(f"{folder}/authorized_keys", "w") as file:
            file.write(" ".join(key(f"{folder}/user_key")) + "\n")
        with open(f"{folder}/ssh/known_hosts", "w") as file:
            file.writelines(f"{self.address(i)} {' '.join(host_key)}\n" for i in range(self.count))
        with open(f"{folder}/ssh/config", "w") as file:
            file.write(f"Host {NETWORK}*\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
                       f"  UserKnownHostsFile {folder}/ssh/known_hosts\n")
        with open(f"{folder}/cluster.toml", "w") as file:
            file.write(f'name = "chaos"\n{settings}[ssh]\ndirectory = "{folder}/ssh"\nknown_hosts = "{folder}/ssh/known_hosts"\n')
            for i, of_node in enumerate(roles):
                quoted = ", ".join(f'"{role}"' for role in of_node)
                file.write(f'[[node]]\nname = "{self.names[i]}"\nhost = "{self.address(i)}"\naddress = "{self.address(i)}"\n'
                           f'workdir = "{self.workdir(i)}"\nroles = [{quoted}]\n')

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def build(self):
        run("ip", "netns", "add", self.hub)
        run("ip", "-n", self.hub, "link", "add", "hub", "type", "bridge")
        run("ip", "-n", self.hub, "addr", "add", f"{NETWORK}254/24", "dev", "hub")
        for link in ("lo", "hub"):
            run("ip", "-n", self.hub, "link", "set", link, "up")
        for i in range(self.count):
            os.makedirs(self.workdir(i))
            run("mount", "-t", "tmpfs", "-o", f"size={self.disk_mib}m,mode=0700", "tmpfs", self.workdir(i))
            node = self.namespace(i)
            run("ip", "netns", "add", node)
            run("ip", "-n", self.hub, "link", "add", f"to{i}", "type", "veth", "peer", "name", "eth", "netns", node)
            run("ip", "-n", self.hub, "link", "set", f"to{i}", "master", "hub", "up")
            run("ip", "-n", node, "addr", "add", f"{self.address(i)}/24", "dev", "eth")
            for link in ("lo", "eth"):
                run("ip", "-n", node, "link", "set", link, "up")
            options = [f"ListenAddress={self.address(i)}", *(option.format(folder=self.folder) for option in SSHD_OPTIONS)]
            self.servers.append(start_sshd(options, self.sshd_log(i), ["ip", "netns", "exec", node]))
        end = time.monotonic() + 20
        for i in range(self.count):
            while subprocess.run(self.in_hub("bash", "-c", f"echo > /dev/tcp/{self.address(i)}/22"), stderr=subprocess.DEVNULL).returncode:
                if time.monotonic() > end:
                    raise RuntimeError(f"no sshd on {self.address(i)}: {last_words(self.sshd_log(i))}")
                time.sleep(0.05)

    def in_hub(self, *command):
        return ["ip", "netns", "exec", self.hub, *command]

    def namespace(self, i):
        return f"chaos-{os.getpid()}-{i}"

    def address(self, i):
        return f"{NETWORK}{i + 1}"

    def workdir(self, i):
        return f"{self.folder}/disks/{i}"

    def sshd_log(self, i):
        return f"{self.folder}/sshd-{i}.log"

    def drop(self, sender, receiver):
        """From now on nothing of what one node sends reaches the other, and nothing says so."""
        run("ip", "-n", self.namespace(sender), "neigh", "replace", self.address(receiver), "lladdr", NOWHERE, "dev", "eth", "nud",
            "permanent")

    def deliver(self, sender, receiver):
        run("ip", "-n", self.namespace(sender), "neigh", "del", self.address(receiver), "dev", "eth")

    def cut_off(self, i):
        """The node reaches nobody, nobody reaches it, and nothing says so."""
        run("tc", "-n", self.namespace(i), "qdisc", "add", "dev", "eth", "root", "pfifo", "limit", "0")
        run("tc", "-n", self.hub, "qdisc", "add", "dev", f"to{i}", "root", "pfifo", "limit", "0")

    def slow_down(self, i, rate):
        for namespace, link in ((self.namespace(i), "eth"), (self.hub, f"to{i}")):
            run("tc", "-n", namespace, "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "16k", "latency", "200ms")

    def restore(self, i):
        run("tc", "-n", self.namespace(i), "qdisc", "del", "dev", "eth", "root")
        run("tc", "-n", self.hub, "qdisc", "del", "dev", f"to{i}", "root")

    def fill_disk(self, i):
        try:
            with open(f"{self.workdir(i)}/filler", "wb", buffering=0) as file:
                while True:
                    file.write(b"\1" * 65536)
        except OSError:
            pass

    def free_disk(self, i):
        os.remove(f"{self.workdir(i)}/filler")

    def __exit__(self, *_):
        for namespace in [self.namespace(i) for i in range(self.count)] + [self.hub]:
            pids = subprocess.run(["ip", "netns", "pids", namespace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for pid in pids.stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for server in self.servers:
            server.wait()
        for i in range(self.count):
            for command in (["umount", self.workdir(i)], ["ip", "netns", "del", self.namespace(i)]):
                subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "netns", "del", self.hub], stderr=subprocess.DEVNULL, check=False)
