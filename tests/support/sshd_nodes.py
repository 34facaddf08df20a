"""Real sshds on loopback addresses with throw-away keys, and a cluster file of them: for scripts that run paddlectl."""
import os
import signal
import socket
import subprocess
import sys
import time


def key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    with open(path + ".pub") as file:
        return file.read().split()[:2]


def start_sshd(options, log, within=()):
    """Starts one in the foreground, which writes what it has to say to the file `log`; `within` is a command to run it by."""
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", 0o755, exist_ok=True)  # it refuses to start without one; only Debian's service makes it
    command = [*within, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null"]
    for option in options:
        command += ["-o", option]
    with open(log, "a") as said:
        return subprocess.Popen(command, stdout=said, stderr=said)


def last_words(log):
    with open(log) as file:
        return file.read()[-500:].strip()


class Nodes:
    """Sshds on 127.0.2.1 and following, one port, keys and cluster.toml in `folder`; ends them when left."""

    def __init__(self, folder, count, settings=""):
        self.folder, self.servers = folder, []
        self.hosts = [f"127.0.2.{i + 1}" for i in range(count)]
        with socket.socket() as free:
            free.bind((self.hosts[0], 0))
            self.port = free.getsockname()[1]
        host_key = key(f"{folder}/host_key")
        with open(f"{folder}/authorized_keys", "w") as file:
            file.write(" ".join(key(f"{folder}/user_key")) + "\n")
        os.mkdir(f"{folder}/ssh", 0o700)
        with open(f"{folder}/ssh/known_hosts", "w") as file:
            file.writelines(f"[{host}]:{self.port} {' '.join(host_key)}\n" for host in self.hosts)
        with open(f"{folder}/ssh/config", "w") as file:
            file.write(f"Host 127.0.2.*\n  Port {self.port}\n  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
                       f"  UserKnownHostsFile {folder}/ssh/known_hosts\n  StrictHostKeyChecking yes\n")
        with open(f"{folder}/cluster.toml", "w") as file:
            file.write(f'name = "nodes"\n{settings}[ssh]\ndirectory = "{folder}/ssh"\nknown_hosts = "{folder}/ssh/known_hosts"\n')
            for i, host in enumerate(self.hosts):
                file.write(f'[[node]]\nhost = "{host}"\naddress = "{host}"\nworkdir = "{self.workdir(i)}"\n')

    def __enter__(self):
        options = [f"HostKey={self.folder}/host_key", f"AuthorizedKeysFile={self.folder}/authorized_keys", "PidFile=none",
                   "UsePAM=no", "StrictModes=no", "UseDNS=no", "PrintMotd=no", "MaxStartups=100",
                   "PasswordAuthentication=no", "Subsystem=sftp internal-sftp", "SetEnv=SHLVL=2"]  # so that bash reads no start-up file
        for host in self.hosts:
            self.servers.append(start_sshd([f"ListenAddress={host}:{self.port}", *options], f"{self.folder}/sshd.log"))
        end = time.monotonic() + 10
        for host in self.hosts:
            while True:
                try:
                    socket.create_connection((host, self.port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > end:
                        sys.exit(f"no sshd on {host}: {last_words(f'{self.folder}/sshd.log')}")
                    time.sleep(0.05)
        return self

    def workdir(self, i):
        return f"{self.folder}/nodes/{i}"

    def kill_connections(self):
        """SIGKILL for every process that serves a connection, not for what they run."""
        for server in self.servers:
            children = subprocess.run(["pgrep", "-P", str(server.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
            for child in children:
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def __exit__(self, *_):
        for server in self.servers:
            server.terminate()
            server.wait()
