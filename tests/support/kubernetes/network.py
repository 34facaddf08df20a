"""The pods' network: a namespace for each, on a bridge in one of its own, so that this machine reaches pods by exec only."""
import asyncio
import os

NETWORK = "10.244.77."
HUB = "hub"


async def run(*command):
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
    _, words = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {words.decode().strip()}")


class Network:
    """Names of namespaces are those of `ip netns`, in a /run/netns that only this process and its children see."""

    def __init__(self):
        self.used = {1}
        self.last = 1

    async def start(self):
        await run("ip", "netns", "add", HUB)
        await run("ip", "-n", HUB, "link", "set", "lo", "up")
        await run("ip", "-n", HUB, "link", "add", "bridge", "type", "bridge")
        await run("ip", "-n", HUB, "addr", "add", f"{NETWORK}1/24", "dev", "bridge")
        await run("ip", "-n", HUB, "link", "set", "bridge", "up")

    async def add(self):
        """Makes a namespace; returns its number. A number is used again as late as possible: a new pod has a new address."""
        number = next(one for one in [*range(self.last + 1, 255), *range(2, self.last + 1)] if one not in self.used)
        self.used.add(number)
        self.last = number
        name = self.name(number)
        await run("ip", "netns", "add", name)
        await run("ip", "link", "add", f"pod{number}", "netns", HUB, "type", "veth", "peer", "name", "eth0", "netns", name)
        await run("ip", "-n", HUB, "link", "set", f"pod{number}", "master", "bridge", "up")
        await run("ip", "-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            await run("ip", "-n", name, "link", "set", link, "up")
        return number

    async def remove(self, number):
        if os.path.exists(f"/run/netns/{self.name(number)}"):
            await run("ip", "netns", "del", self.name(number))
        self.used.discard(number)

    async def set_link(self, number, state):
        """ "down" cuts the pod off, "up" connects it again."""
        await run("ip", "-n", HUB, "link", "set", f"pod{number}", state)

    @staticmethod
    def name(number):
        return f"pod-{number}"

    @staticmethod
    def address(number):
        return f"{NETWORK}{number}"
