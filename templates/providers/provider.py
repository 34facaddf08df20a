"""The part that providers of plain servers share: a host key that is made here and given to the
new server by cloud-init, the first login, and the commands create, list and destroy.

A provider calls serve(nodes, make, remove) with three functions of its own:
  nodes()      the cluster's nodes as `list` prints them, with their paddlectl-id as x_id
  make(new)    starts one, with the labels paddlectl-cluster and paddlectl-id, and keeps
               new.host_key at the server; all in one call, so that it can be killed at any moment
  remove(node) removes it
"""
import dataclasses
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time

CLUSTER = os.environ.get("PROVIDER_CLUSTER", "")
USER = "train"
IDENTITY = os.path.expanduser(os.environ.get("SSH_KEY", "~/.ssh/id_ed25519"))
BOOT_SECONDS = 600


@dataclasses.dataclass
class NewNode:
    name: str
    paddlectl_id: str
    host_key: str   # its public half
    user_data: str  # a file for cloud-init, with the private half


def run(*command):
    """The output of a program. If it fails, its cause becomes the last line of our stderr."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {' '.join(done.stderr.split())}")
    return done.stdout


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def make_with_host_key(make, name, paddlectl_id):
    with tempfile.TemporaryDirectory() as folder:
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/key")
        host_key = text_of(f"{folder}/key.pub")
        config = {
            "users": [{"name": USER, "shell": "/bin/bash",
                       "ssh_authorized_keys": [text_of(f"{IDENTITY}.pub").strip()]}],
            "ssh_pwauth": False,
            "ssh_keys": {"ed25519_private": text_of(f"{folder}/key"), "ed25519_public": host_key},
        }
        with open(f"{folder}/user-data", "w", encoding="utf-8") as file:
            file.write("#cloud-config\n" + json.dumps(config) + "\n")  # JSON is YAML too
        make(NewNode(name, paddlectl_id, " ".join(host_key.split()[:2]), f"{folder}/user-data"))


def wait_for_login(node, deadline):
    with tempfile.NamedTemporaryFile("w") as known_hosts:
        known_hosts.write(f"{node['host']} {node['host_key']}\n")
        known_hosts.flush()
        options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "GlobalKnownHostsFile=none",
                   f"UserKnownHostsFile={known_hosts.name}", "ConnectTimeout=5"]
        command = ["ssh", *(f"-o{one}" for one in options), "-i", IDENTITY,
                   f"{USER}@{node['host']}", "true"]
        while True:
            login = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                   text=True, check=False)
            if login.returncode == 0:
                return
            if time.monotonic() > deadline:
                why = (login.stderr.strip().splitlines() or ["ssh failed"])[-1]
                raise SystemExit(f"it accepts no login after {BOOT_SECONDS} seconds: {why}")
            time.sleep(2)


def for_node(name, function, *arguments):
    """Prints the cause for a node that fails; paddlectl shows it with the node's name."""
    try:
        function(*arguments)
    except SystemExit as failure:
        print(json.dumps({"name": name, "error": str(failure)}), flush=True)
        raise SystemExit(f"{name}: {failure}") from None


def create(nodes, make):
    there = {node["name"]: node for node in nodes()}
    paddlectl_id = next((node["x_id"] for node in there.values()), secrets.token_hex(4))
    wanted = [f"{CLUSTER}-{index}" for index in range(int(os.environ["PROVIDER_NODES"]))]
    dry_run = os.environ.get("PROVIDER_DRY_RUN") == "1"
    for name in wanted:
        print(f"{name} exists" if name in there else f"{name} is new", flush=True)
        if name not in there and not dry_run:
            for_node(name, make_with_host_key, make, name, paddlectl_id)
    deadline = time.monotonic() + BOOT_SECONDS
    for node in nodes() if not dry_run else []:
        for_node(node["name"], wait_for_login, node, deadline)
        print(f"{node['name']} accepts logins at {node['host']}", flush=True)


def destroy(nodes, remove):
    for node in nodes():
        print(f"removing {node['name']}", flush=True)
        remove(node)
    left = [node["name"] for node in nodes()]
    if left:
        raise SystemExit(f"{', '.join(left)} still exist: run it again")


def serve(nodes, make, remove):
    command = sys.argv[1] if len(sys.argv) == 2 and CLUSTER else ""
    if command == "create":
        create(nodes, make)
    elif command == "list":
        for node in sorted(nodes(), key=lambda one: int(one["name"].rsplit("-", 1)[1])):
            print(json.dumps(node))
    elif command == "destroy":
        destroy(nodes, remove)
    else:
        raise SystemExit("usage: create|list|destroy, with PROVIDER_CLUSTER and PROVIDER_NODES set")
