"""An instance of endpoint.py, from its boot on: does for the user data what cloud-init does on a real one, and becomes sshd.

usage: instance.py FOLDER, as the first process of new network, mount and process namespaces. FOLDER/console is its console.
"""
import json
import os
import pwd
import shlex
import subprocess
import sys
import time


def run(*command):
    subprocess.run(command, check=True)


def write(path, text, mode=0o644):
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)


def bring_up(addresses):
    while not os.path.exists("/proc/net/dev") or "eth0" not in open("/proc/net/dev").read():
        time.sleep(0.01)
    for address in addresses:
        run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
    for link in ("lo", "eth0"):
        run("ip", "link", "set", link, "up")


def make_root(folder):
    """A root of its own, over this machine's: an overlay, whose changes end with the instance."""
    run("mount", "--make-rprivate", "/")
    disk = f"{folder}/disk"
    os.mkdir(disk)
    run("mount", "-t", "tmpfs", "tmpfs", disk)
    for name in ("upper", "work", "root"):
        os.mkdir(f"{disk}/{name}")
    root = f"{disk}/root"
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={disk}/upper,workdir={disk}/work", root)
    for path in ("/dev", "/sys"):
        run("mount", "--rbind", path, root + path)
    run("mount", "-t", "proc", "proc", f"{root}/proc")
    for path in ("/home", "/run", "/tmp", "/etc/ssh"):
        run("mount", "-t", "tmpfs", "tmpfs", root + path)
    os.chmod(f"{root}/tmp", 0o1777)
    os.mkdir(f"{root}/run/sshd", 0o755)
    return root


def make_user(name, public_key):
    number = max(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid < 60000) + 1
    home = f"/home/{name}"
    for path, line in (("/etc/passwd", f"{name}:x:{number}:{number}::{home}:/bin/bash"), ("/etc/group", f"{name}:x:{number}:"),
                       ("/etc/shadow", f"{name}:*:19000:0:99999:7:::")):
        with open(path, "a") as file:
            file.write(line + "\n")
    os.makedirs(f"{home}/.ssh", 0o700)
    write(f"{home}/.ssh/authorized_keys", public_key, 0o600)
    for path in (home, f"{home}/.ssh", f"{home}/.ssh/authorized_keys"):
        os.chown(path, number, number)
    os.chmod(home, 0o700)


def mount_file_systems(config, folder, root):
    """A folder stands for a file system on NFS, if it exists."""
    for source, target, kind, options, *_ in config.get("mounts", []):
        assert kind == "nfs4" and "nfs-common" in config["packages"], source
        assert {"nfsvers=4.1", "hard", "timeo=600", "retrans=2"} <= set(options.split(",")), options
        there = f"{folder}/{source.split('.')[0]}"
        os.makedirs(root + target)
        if os.path.isdir(there):
            run("mount", "--bind", there, root + target)


def host_keys(count):
    for name in range(count):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "root@instance", "-f", f"/etc/ssh/{name}")
        with open(f"/etc/ssh/{name}.pub") as file:
            yield file.read().strip()


def main():
    folder = sys.argv[1]
    with open(f"{folder}/instance.json") as file:
        instance = json.load(file)
    bring_up(instance["addresses"])
    if instance["never_boots"]:
        time.sleep(1e6)
    head, _, data = instance["user_data"].partition("\n")
    assert head == "#cloud-config", head
    config = json.loads(data)
    root = make_root(folder)
    mount_file_systems(config, instance["file_systems"], root)
    with open(f"{folder}/console", "w") as console:
        os.chroot(root)
        os.chdir("/")
        make_user(config["user"], instance["public_key"])
        for command in config.get("runcmd", []):
            subprocess.run(command, check=False)
        keys = list(host_keys(2 if instance["intruder"] else 1))
        lines = ["[    0.000000] Linux version 6.1.0", "", "#" * 61, "-----BEGIN SSH HOST KEY FINGERPRINTS-----",
                 "256 SHA256:x root@instance (ED25519)", "-----END SSH HOST KEY FINGERPRINTS-----", "#" * 61,
                 "-----BEGIN SSH HOST KEY KEYS-----", "ecdsa-sha2-nistp256 AAAAE2Vj= root@instance", keys[0],
                 "-----END SSH HOST KEY KEYS-----", "", "Debian GNU/Linux 12 instance ttyS0"]
        console.write("".join(f"<14>Nov 27 10:00:00 cloud-init: {line}\r\n" for line in lines))
    os.execv("/usr/sbin/sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-o", f"HostKey=/etc/ssh/{len(keys) - 1}", "-o", "PidFile=none",
                                "-o", "UsePAM=no", "-o", "UseDNS=no", "-o", "PasswordAuthentication=no", "-o", "MaxStartups=100",
                                "-o", "SetEnv=SHLVL=2"])


if __name__ == "__main__":
    main()
