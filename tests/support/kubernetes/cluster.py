"""The stand-in cluster as a whole: its certificate, kubeconfig and sockets, the faults that tests ask for, and its end."""
import asyncio
import base64
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

import yaml
from aiohttp import web

from controllers import Controllers
from kubelet import Kubelet
from limits import Limits, remove_group
from objects import KINDS, Refused, Store, not_found
from server import Server


def limits_name(folder):
    return "standin" + folder.replace("/", "-")


def clean(folder):
    """Removes what a stand-in has in the folder and in control groups; its processes, namespaces and mounts have ended with it."""
    for _, parent in Limits.parents():
        remove_group(f"{parent}/{limits_name(folder)}", tries=100)
    for name in ("pods", "claims", "control", "kubeconfig", "key.pem", "certificate.pem"):
        path = f"{folder}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.remove(path)


def make_certificate(folder):
    """A key and a certificate for 127.0.0.1, which signs itself."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                    "-subj", "/CN=standin", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{folder}/key.pem",
                    "-out", f"{folder}/certificate.pem"], check=True, stderr=subprocess.DEVNULL)


def write_kubeconfig(folder, port, token):
    with open(f"{folder}/certificate.pem", "rb") as file:
        certificate = base64.b64encode(file.read()).decode()
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "standin", "preferences": {},
              "clusters": [{"name": "standin", "cluster": {
                  "server": f"https://127.0.0.1:{port}", "certificate-authority-data": certificate}}],
              "users": [{"name": "tester", "user": {"token": token}}],
              "contexts": [{"name": "standin", "context": {"cluster": "standin", "user": "tester"}}]}
    with open(os.open(f"{folder}/kubeconfig", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        yaml.safe_dump(config, file)


class Faults:
    """The faults by name: each method that begins with "on_" is one."""

    def __init__(self, store, kubelet):
        self.store, self.kubelet, self.server, self.port = store, kubelet, None, 0

    def handlers(self):
        return {name[3:]: getattr(self, name) for name in dir(self) if name.startswith("on_")}

    def pod(self, name, namespace):
        found = self.store.get("pods", namespace, name)
        if found is None:
            raise not_found(KINDS["pods"], name)
        return found

    def run(self, name, namespace):
        found = self.kubelet.run_of(self.pod(name, namespace))
        if found is None or found.number is None:
            raise Refused(400, "BadRequest", f"pod {name} has not started")
        return found

    async def on_evict(self, pod, namespace="default", message=""):
        await self.kubelet.evict(self.pod(pod, namespace), message)

    async def on_lose(self, pod, namespace="default"):
        self.run(pod, namespace)
        await self.kubelet.lose(self.pod(pod, namespace))

    async def on_delete(self, pod, namespace="default"):
        self.server.delete(self.pod(pod, namespace))

    async def on_kill(self, pod, namespace="default", container="", reason="OOMKilled"):
        self.kubelet.container(self.pod(pod, namespace), {"container": container}).kill(signal.SIGKILL, reason)

    async def on_cut(self, pod, namespace="default"):
        await self.kubelet.network.set_link(self.run(pod, namespace).number, "down")

    async def on_connect(self, pod, namespace="default"):
        await self.kubelet.network.set_link(self.run(pod, namespace).number, "up")

    async def on_unready(self, match=""):
        self.kubelet.rules["unready"] = {"match": match}

    async def on_unschedulable(self, match="", message=""):
        self.kubelet.rules["unschedulable"] = {"match": match, "message": message}

    async def on_image(self, match="", message=""):
        self.kubelet.rules["image"] = {"match": match, "message": message}

    async def on_quota(self, hard, namespace="default", name="standin"):
        self.server.create(KINDS["resourcequotas"], namespace, {
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name},
            "spec": {"hard": {key: str(value) for key, value in hard.items()}}}, {})

    async def on_token(self, valid):
        self.server.accepts_token = valid

    async def on_freeze(self, seconds):
        self.server.frozen_until = time.monotonic() + seconds
        asyncio.get_running_loop().call_later(0.1, time.sleep, max(0, seconds - 0.1))  # after the answer; streams that are open stop too

    async def on_clear(self):
        self.kubelet.rules.clear()
        self.server.accepts_token = True
        for one in self.store.list("resourcequotas"):
            self.store.remove(one)

    async def on_facts(self):
        return {"limits": bool(self.kubelet.limits.roots), "port": self.port}


async def listen(application, site_of):
    runner = web.AppRunner(application)
    await runner.setup()
    await site_of(runner).start()


async def serve_until_signal(folder, version, image, has_websockets):
    store, token = Store(), secrets.token_hex(20)
    kubelet = Kubelet(store, folder, image, Limits(limits_name(folder)))
    kubelet.has_websockets = has_websockets
    faults = Faults(store, kubelet)
    server = faults.server = Server(store, kubelet, faults.handlers(), token, int(version.rpartition(".")[2]))
    await kubelet.start()
    for name in ("default", "kube-system"):
        store.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(f"{folder}/certificate.pem", f"{folder}/key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        faults.port = listener.getsockname()[1]
        await listen(server.application(needs_token=True), lambda runner: web.SockSite(runner, listener, ssl_context=context))
        await listen(server.application(needs_token=False), lambda runner: web.UnixSite(runner, f"{folder}/control"))
        write_kubeconfig(folder, faults.port, token)
        running = asyncio.create_task(Controllers(store, server, kubelet).run())
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        print(f"{folder}/kubeconfig", flush=True)
        redirect_output(folder)
        await stop.wait()
        running.cancel()


def redirect_output(folder):
    """The log: faults of the stand-in itself, and of mounts."""
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)


def serve(folder, version, image, has_websockets):
    if hasattr(asyncio, "PidfdChildWatcher") and sys.version_info < (3, 12):
        asyncio.set_child_watcher(asyncio.PidfdChildWatcher())

    async def run():
        watcher = asyncio.get_child_watcher() if sys.version_info < (3, 12) else None
        if watcher:
            watcher.attach_loop(asyncio.get_running_loop())
        await serve_until_signal(folder, version, image, has_websockets)
        os._exit(0)  # as process 1: all others in the namespace end with it
    asyncio.run(run())
