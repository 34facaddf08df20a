"""Volumes of pods: the folders on this machine that stand for them."""
import base64
import os
import shutil
import stat
import subprocess

from objects import quantity


class NotReady(Exception):
    """A pod cannot start yet; says why, with the reason that the kubelet has for it."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


class Volumes:
    """Volumes of the cluster lie in `folder`: those that are made for claims in claims/, NFS exports in nfs/SERVER/PATH."""

    def __init__(self, store, folder):
        self.store, self.folder = store, folder

    def nfs_export(self, server, path):
        return os.path.normpath(f"{self.folder}/nfs/{server}/{path}")

    def make_for_claim(self, name):
        folder = f"{self.folder}/claims/{name}"
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)  # as a file system that was just made
        return folder

    def remove_of_claim(self, name):
        shutil.rmtree(f"{self.folder}/claims/{name}", ignore_errors=True)

    def source(self, pod, volume, folder):
        """The folder of a volume, and whether it is read-only. Files and an emptyDir are made in `folder`."""
        if "persistentVolumeClaim" in volume:
            return self.claimed(pod, volume["persistentVolumeClaim"])
        if "nfs" in volume:
            folder = self.nfs_export(volume["nfs"]["server"], volume["nfs"]["path"])
            return self.mounted(volume["name"], folder), volume["nfs"].get("readOnly", False)
        if "hostPath" in volume:
            return volume["hostPath"]["path"], False
        if "emptyDir" in volume:
            if not os.path.isdir(folder):
                os.makedirs(folder)
                if volume["emptyDir"].get("medium") == "Memory":
                    size = int(quantity(volume["emptyDir"].get("sizeLimit", "1Gi")))
                    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0777,size={size}", "emptydir", folder], check=True)
                os.chmod(folder, 0o777)
                apply_group(pod, folder)
            return folder, False
        if "secret" in volume or "configMap" in volume:
            self.write_files(pod, volume, folder)
            return folder, True
        raise NotReady("FailedMount", f'MountVolume.SetUp failed for volume "{volume["name"]}" : the stand-in has no such volume type')

    def bound(self, pod, name):
        """The claim, or the scheduler's words for why the pod cannot have it yet."""
        claim = self.store.get("persistentvolumeclaims", pod["metadata"]["namespace"], name)
        unhelpful = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        if claim is None:
            raise NotReady("FailedScheduling", f'0/1 nodes are available: persistentvolumeclaim "{name}" not found. {unhelpful}')
        if claim["status"]["phase"] != "Bound":
            raise NotReady("FailedScheduling", f"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. {unhelpful}")
        return claim

    def claimed(self, pod, reference):
        claim = self.bound(pod, reference["claimName"])
        volume = self.store.get("persistentvolumes", None, claim["spec"]["volumeName"])["spec"]
        is_read_only = reference.get("readOnly", False) or claim["spec"]["accessModes"] == ["ReadOnlyMany"]
        if "nfs" in volume:
            folder = self.nfs_export(volume["nfs"]["server"], volume["nfs"]["path"])
            return self.mounted(claim["spec"]["volumeName"], folder), is_read_only or volume["nfs"].get("readOnly", False)
        if "csi" in volume and volume["csi"]["driver"] == "efs.csi.aws.com":
            file_system, _, rest = volume["csi"]["volumeHandle"].partition(":")
            return self.mounted(claim["spec"]["volumeName"], self.nfs_export(file_system, rest.partition(":")[0] or "/")), is_read_only
        if "hostPath" in volume:
            return volume["hostPath"]["path"], is_read_only
        folder = self.make_for_claim(claim["spec"]["volumeName"])
        apply_group(pod, folder)
        return folder, is_read_only

    @staticmethod
    def mounted(name, folder):
        """NFS does not obey fsGroup: the folder is as the server has it."""
        if not os.path.isdir(folder):
            raise NotReady("FailedMount", f'MountVolume.SetUp failed for volume "{name}" : mount failed: exit status 32\n'
                           "Mounting command: mount\nMounting arguments: -t nfs\nOutput: mount.nfs: mounting failed, "
                           "reason given by server: No such file or directory")
        return folder

    def write_files(self, pod, volume, folder):
        """A secret or a configMap: files behind a link to a folder, as the kubelet writes them, so that all change at once."""
        of_secret = "secret" in volume
        wanted = volume["secret" if of_secret else "configMap"]
        plural, name = ("secrets", wanted.get("secretName")) if of_secret else ("configmaps", wanted.get("name"))
        found = self.store.get(plural, pod["metadata"]["namespace"], name)
        if found is None and not wanted.get("optional"):
            raise NotReady("FailedMount", f'MountVolume.SetUp failed for volume "{volume["name"]}" : {plural[:-1]} "{name}" not found')
        stored = (found or {}).get("data") or {}
        data = {key: base64.b64decode(text) if of_secret else text.encode() for key, text in stored.items()}
        items = wanted.get("items") or [{"key": key, "path": key} for key in data]
        os.makedirs(f"{folder}/..data", exist_ok=True)
        group = pod["spec"]["securityContext"].get("fsGroup")
        for item in items:
            path = f'{folder}/..data/{item["path"]}'
            with open(path, "wb") as file:
                file.write(data[item["key"]])
            mode = item.get("mode", wanted["defaultMode"])
            os.chmod(path, mode | (0o440 if group is not None else 0))
            if group is not None:
                os.chown(path, 0, group)
            if not os.path.lexists(f'{folder}/{item["path"]}'):
                os.symlink(f'..data/{item["path"]}', f'{folder}/{item["path"]}')


def apply_group(pod, folder):
    """fsGroup: everything of the volume gets this group, which can write there."""
    group = pod["spec"]["securityContext"].get("fsGroup")
    if group is None:
        return
    for where, _, files in os.walk(folder):
        for path in [where] + [f"{where}/{name}" for name in files]:
            if not os.path.islink(path):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                os.chown(path, -1, group)
                os.chmod(path, mode | (0o2770 if path == where else 0o660))
