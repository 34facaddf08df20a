"""A stand-in for the endpoint of AWS EC2: answers the calls of templates/providers/aws-ec2 to the real aws client, and really
starts instances, each in network, mount and process namespaces of its own, with a real sshd (instance.py).

usage, as root: unshare --net --mount python3 endpoint.py FOLDER      FOLDER/ready exists once it listens, at http://127.0.0.1:8000

Everything runs in this network namespace: join it with nsenter --net=/proc/PID/ns/net. FOLDER/objects has a line for each object
that exists, FOLDER/calls one for each call. When this program ends, so do its instances. FOLDER/faults.json makes it fail:
  {"refuse": {"RunInstances lab-1": ["Code", "message"], "*": [...]},    calls, for a node or in general
   "refuse_once": {"RunInstances lab-1": ["Code", "message"]},            the first such call
   "never_boots": ["lab-0"],       it runs, and neither its console nor its sshd says anything
   "intruder": ["lab-1"],          its console shows another host key than its sshd has
   "interrupt": ["lab-1"]}         spot interruption, once
"""
import base64
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import xml.sax.saxutils

PRIVATE, PUBLIC = "10.88.0.", "203.0.113."
ACCESS_KEY = "AKIDOFTHETEST"
ZONES = {"subnet-a": "eu-west-1a", "subnet-b": "eu-west-1b"}
IMAGES = [{"imageId": f"ami-{i}", "name": f"debian-12-amd64-2025010{i}-1", "creationDate": f"2025-01-0{i}T00:00:00.000Z",
           "rootDeviceName": "/dev/xvda"} for i in (1, 3, 2)]
HERE = os.path.dirname(os.path.abspath(__file__))


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def unflatten(pairs):
    """{"Tag.1.Key": "a"} becomes {"Tag": [{"Key": "a"}]}."""
    tree = {}
    for name, value in pairs:
        at = tree
        *parents, last = name.split(".")
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value

    def lists(node):
        if not isinstance(node, dict):
            return node
        if node and all(key.isdigit() for key in node):
            return [lists(node[key]) for key in sorted(node, key=int)]
        return {key: lists(value) for key, value in node.items()}
    return lists(tree)


def to_xml(value):
    if isinstance(value, dict):
        return "".join(f"<{key}>{to_xml(item)}</{key}>" for key, item in value.items() if not key.startswith("_"))
    if isinstance(value, list):
        return "".join(f"<item>{to_xml(item)}</item>" for item in value)
    return xml.sax.saxutils.escape(str(value).lower() if isinstance(value, bool) else str(value))


def tags_for(request, kind):
    for specification in request.get("TagSpecification", []):
        if specification["ResourceType"] == kind:
            return [{"key": tag["Key"], "value": tag["Value"]} for tag in specification["Tag"]]
    return []


def tag(thing, key):
    return next((one["value"] for one in thing.get("tagSet", []) if one["key"] == key), "")


def filtered(things, request):
    for wanted in request.get("Filter", []):
        name, values = wanted["Name"], wanted["Value"]
        if name.startswith("tag:"):
            things = [one for one in things if tag(one, name[4:]) in values]
        elif name == "name":
            things = [one for one in things if any(re.fullmatch(value.replace("*", ".*"), one["name"]) for value in values)]
        elif name != "default-for-az":
            raise Refused("InvalidParameterValue", f"The filter '{name}' is invalid")
    return things


class Cloud:
    """Its objects, by kind; their keys are those of AWS' answers, others begin with '_'."""

    def __init__(self, folder):
        self.folder = folder
        self.state = {"instances": {}, "groups": {}, "key_pairs": {}, "volumes": {}}
        self.processes = {}
        self.made = 0
        self.faults = {}
        os.mkdir(f"{folder}/instances")
        for command in (["link", "add", "hub", "type", "bridge"], ["addr", "add", f"{PRIVATE}254/24", "dev", "hub"],
                        ["addr", "add", f"{PUBLIC}254/24", "dev", "hub"], ["link", "set", "lo", "up"], ["link", "set", "hub", "up"]):
            subprocess.run(["ip", *command], check=True)

    def new_id(self, kind):
        self.made += 1
        return f"{kind}-{self.made:017x}"

    def answer(self, pairs):
        request = unflatten(pairs)
        action = request["Action"]
        self.read_faults()
        node = next((one["value"] for one in tags_for(request, "instance") if one["key"] == "Name"), "")
        refusals = {**self.faults.get("refuse", {}), **self.faults.get("refuse_once", {})}
        refusal = refusals.get("*") or refusals.get(action) or refusals.get(f"{action} {node}")
        if self.faults.get("refuse_once", {}).pop(f"{action} {node}", None):
            self.write_faults()
        with open(f"{self.folder}/calls", "a") as calls:
            calls.write(f"{action} {node}\n".replace(" \n", "\n"))
        if refusal:
            raise Refused(*refusal)
        method = getattr(self, "on_" + action, None)
        if method is None:
            raise Refused("InvalidAction", f"The action {action} is not valid for this web service")
        result = method(request)
        self.write_objects()
        return f'<{action}Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>{to_xml(result)}</{action}Response>'

    def write_objects(self):
        lines = []
        for kind, things in self.state.items():
            for one in things.values():
                if one.get("instanceState", {}).get("name") == "terminated":
                    continue
                words = [kind, *(f"{each['key']}={each['value']}" for each in one["tagSet"] if each["key"] != "paddlectl-host-key")]
                for rule in one.get("ipPermissions", []):
                    sources = ["itself" for each in rule["groups"] if each["groupId"] == one["groupId"]]
                    sources += [each["cidrIp"] for each in rule["ipRanges"]]
                    words.append(f"{rule['ipProtocol']}:{rule.get('toPort', 'all')}:{','.join(sources)}")
                lines.append(" ".join(words) + "\n")
        with open(f"{self.folder}/objects.new", "w") as file:
            file.writelines(sorted(lines))
        os.rename(f"{self.folder}/objects.new", f"{self.folder}/objects")

    def read_faults(self):
        path = f"{self.folder}/faults.json"
        if not os.path.exists(path):
            self.faults = {}
            return
        with open(path) as file:
            self.faults = json.load(file)
        for name in self.faults.pop("interrupt", []):
            for instance in self.living(name):
                self.end(instance)
                instance["instanceState"]["name"] = "terminated"
                instance["stateReason"] = {"code": "Server.SpotInstanceTermination", "message": "Spot instance termination"}
            self.write_faults()

    def write_faults(self):
        with open(f"{self.folder}/faults.json", "w") as file:
            json.dump(self.faults, file)

    def living(self, name=None):
        return [one for one in self.state["instances"].values()
                if one["instanceState"]["name"] in ("pending", "running") and name in (None, tag(one, "Name"))]

    def find(self, kind, identity, code):
        if identity not in self.state[kind]:
            raise Refused(code, f"The ID '{identity}' does not exist")
        return self.state[kind][identity]

    # --- images and networks

    def on_DescribeSubnets(self, request):
        subnets = [{"subnetId": name, "vpcId": "vpc-1", "availabilityZone": zone} for name, zone in reversed(ZONES.items())]
        wanted = request.get("SubnetId")
        if wanted and wanted[0] not in ZONES:
            raise Refused("InvalidSubnetID.NotFound", f"The subnet ID '{wanted[0]}' does not exist")
        return {"subnetSet": [one for one in filtered(subnets, request) if not wanted or one["subnetId"] in wanted]}

    def on_DescribeImages(self, request):
        wanted = request.get("ImageId")
        return {"imagesSet": [one for one in filtered(IMAGES, request) if not wanted or one["imageId"] in wanted]}

    def on_DescribeSpotPriceHistory(self, request):
        return {"spotPriceHistorySet": [{"instanceType": request["InstanceType"][0], "productDescription": "Linux/UNIX",
                                         "spotPrice": "0.123400", "availabilityZone": request["AvailabilityZone"],
                                         "timestamp": "2025-01-01T00:00:00.000Z"}]}

    # --- security groups and key pairs

    def on_DescribeSecurityGroups(self, request):
        return {"securityGroupInfo": filtered(list(self.state["groups"].values()), request)}

    def on_CreateSecurityGroup(self, request):
        if any(one["groupName"] == request["GroupName"] for one in self.state["groups"].values()):
            raise Refused("InvalidGroup.Duplicate", f"The security group '{request['GroupName']}' already exists for VPC 'vpc-1'")
        identity = self.new_id("sg")
        self.state["groups"][identity] = {"groupId": identity, "groupName": request["GroupName"], "vpcId": request["VpcId"],
                                          "groupDescription": request["GroupDescription"], "ipPermissions": [],
                                          "tagSet": tags_for(request, "security-group")}
        return {"groupId": identity}

    def on_AuthorizeSecurityGroupIngress(self, request):
        group = self.find("groups", request["GroupId"], "InvalidGroup.NotFound")
        for rule in request["IpPermissions"]:
            said = {"ipProtocol": rule["IpProtocol"],
                    "groups": [{"groupId": one["GroupId"]} for one in rule.get("Groups", [])],
                    "ipRanges": [{"cidrIp": one["CidrIp"]} for one in rule.get("IpRanges", [])]}
            if "FromPort" in rule:
                said |= {"fromPort": int(rule["FromPort"]), "toPort": int(rule["ToPort"])}
            if said in group["ipPermissions"]:
                raise Refused("InvalidPermission.Duplicate", "the specified rule already exists")
            group["ipPermissions"].append(said)
        return {"return": True}

    def on_DeleteSecurityGroup(self, request):
        group = self.find("groups", request["GroupId"], "InvalidGroup.NotFound")
        if any(one["instanceState"]["name"] != "terminated" and any(of["groupId"] == group["groupId"] for of in one["groupSet"])
               for one in self.state["instances"].values()):
            raise Refused("DependencyViolation", f"resource {group['groupId']} has a dependent object")
        del self.state["groups"][group["groupId"]]
        return {"return": True}

    def on_DescribeKeyPairs(self, request):
        return {"keySet": filtered(list(self.state["key_pairs"].values()), request)}

    def on_ImportKeyPair(self, request):
        if any(one["keyName"] == request["KeyName"] for one in self.state["key_pairs"].values()):
            raise Refused("InvalidKeyPair.Duplicate", f"The keypair already exists: {request['KeyName']}")
        public = base64.b64decode(request["PublicKeyMaterial"]).decode()
        if not public.startswith("ssh-ed25519 "):
            raise Refused("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
        identity = self.new_id("key")
        self.state["key_pairs"][identity] = {"keyPairId": identity, "keyName": request["KeyName"], "publicKey": public,
                                             "tagSet": tags_for(request, "key-pair")}
        return {"keyPairId": identity, "keyName": request["KeyName"]}

    def on_DeleteKeyPair(self, request):
        self.state["key_pairs"].pop(request["KeyPairId"], None)
        return {"return": True}

    # --- volumes and instances

    def on_DescribeVolumes(self, request):
        return {"volumeSet": filtered(list(self.state["volumes"].values()), request)}

    def on_DeleteVolume(self, request):
        volume = self.find("volumes", request["VolumeId"], "InvalidVolume.NotFound")
        if volume["_instance"] in [one["instanceId"] for one in self.living()]:
            raise Refused("VolumeInUse", f"{volume['volumeId']} is in use")
        del self.state["volumes"][volume["volumeId"]]
        return {"return": True}

    def on_DescribeInstances(self, request):
        answer = [json.loads(json.dumps(one)) for one in filtered(list(self.state["instances"].values()), request)]
        for one in self.state["instances"].values():    # each is seen in its passing state once
            if one["instanceState"]["name"] in ("pending", "shutting-down"):
                one["instanceState"]["name"] = "running" if one["instanceState"]["name"] == "pending" else "terminated"
        return {"reservationSet": [{"reservationId": "r-1", "instancesSet": [one]} for one in answer]}

    def on_RunInstances(self, request):
        asked = {key: value for key, value in request.items() if key != "ClientToken"}
        for one in self.state["instances"].values():
            if one["_token"] == request["ClientToken"]:
                if one["instanceState"]["name"] in ("shutting-down", "terminated"):
                    raise Refused("IdempotentInstanceTerminated", "The client token belongs to an instance that has been terminated")
                if one["_request"] != asked:
                    raise Refused("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent")
                return {"reservationId": "r-1", "instancesSet": [one]}
        for group in request["SecurityGroupId"]:
            self.find("groups", group, "InvalidGroup.NotFound")
        key = [one for one in self.state["key_pairs"].values() if one["keyName"] == request["KeyName"]]
        if not key:
            raise Refused("InvalidKeyPair.NotFound", f"The key pair '{request['KeyName']}' does not exist")
        if request["ImageId"] not in [one["imageId"] for one in IMAGES]:
            raise Refused("InvalidAMIID.NotFound", f"The image id '[{request['ImageId']}]' does not exist")
        number = self.made % 200 + 1
        instance = {"instanceId": self.new_id("i"), "imageId": request["ImageId"], "instanceType": request["InstanceType"],
                    "launchTime": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), "instanceState": {"code": 0, "name": "pending"},
                    "privateIpAddress": f"{PRIVATE}{number}", "ipAddress": f"{PUBLIC}{number}", "subnetId": request["SubnetId"],
                    "vpcId": "vpc-1", "placement": {"availabilityZone": ZONES[request["SubnetId"]]}, "keyName": request["KeyName"],
                    "groupSet": [{"groupId": one} for one in request["SecurityGroupId"]], "tagSet": tags_for(request, "instance"),
                    "_token": request["ClientToken"], "_request": asked}
        volume = self.new_id("vol")
        self.state["volumes"][volume] = {"volumeId": volume, "size": int(request["BlockDeviceMapping"][0]["Ebs"]["VolumeSize"]),
                                         "tagSet": tags_for(request, "volume"), "_instance": instance["instanceId"]}
        self.state["instances"][instance["instanceId"]] = instance
        self.boot(instance, base64.b64decode(request["UserData"]).decode(), key[0]["publicKey"])
        return {"reservationId": "r-1", "instancesSet": [instance]}

    def boot(self, instance, user_data, public_key):
        folder, name = f"{self.folder}/instances/{instance['instanceId']}", tag(instance, "Name")
        os.mkdir(folder)
        with open(f"{folder}/instance.json", "w") as file:
            json.dump({"user_data": user_data, "public_key": public_key, "file_systems": f"{self.folder}/file_systems",
                       "addresses": [instance["privateIpAddress"], instance["ipAddress"]],
                       "never_boots": name in self.faults.get("never_boots", []), "intruder": name in self.faults.get("intruder", [])}, file)
        # The first process of the namespaces ends with unshare, which ends with this program.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                   "/usr/bin/python3", f"{HERE}/instance.py", folder]
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes[instance["instanceId"]] = process
        here = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{process.pid}/ns/net") == here:
            time.sleep(0.005)
        number = instance["privateIpAddress"].split(".")[-1]
        subprocess.run(["ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", str(process.pid)], check=True)
        subprocess.run(["ip", "link", "set", f"to{number}", "master", "hub", "up"], check=True)

    def end(self, instance):
        process = self.processes.pop(instance["instanceId"])
        process.send_signal(signal.SIGKILL)
        process.wait()
        number = instance["privateIpAddress"].split(".")[-1]
        subprocess.run(["ip", "link", "del", f"to{number}"], stderr=subprocess.DEVNULL, check=False)
        for volume in [key for key, one in self.state["volumes"].items() if one["_instance"] == instance["instanceId"]]:
            del self.state["volumes"][volume]

    def on_TerminateInstances(self, request):
        for identity in request["InstanceId"]:
            instance = self.find("instances", identity, "InvalidInstanceID.NotFound")
            if instance in self.living():
                self.end(instance)
                instance["instanceState"]["name"] = "shutting-down"
                instance["stateReason"] = {"code": "Client.UserInitiatedShutdown", "message": "Client.UserInitiatedShutdown: User initiated shutdown"}
        return {"instancesSet": [{"instanceId": identity, "currentState": {"name": "shutting-down"}} for identity in request["InstanceId"]]}

    def on_GetConsoleOutput(self, request):
        self.find("instances", request["InstanceId"], "InvalidInstanceID.NotFound")
        path = f"{self.folder}/instances/{request['InstanceId']}/console"
        text = b""
        if os.path.exists(path):
            with open(path, "rb") as file:
                text = file.read()[-65536:]
        return {"instanceId": request["InstanceId"], "timestamp": "2025-01-01T00:00:00.000Z", "output": base64.b64encode(text).decode()}

    def on_CreateTags(self, request):
        for identity in request["ResourceId"]:
            instance = self.find("instances", identity, "InvalidInstanceID.NotFound")
            for one in request["Tag"]:
                instance["tagSet"] = [old for old in instance["tagSet"] if old["key"] != one["Key"]]
                instance["tagSet"].append({"key": one["Key"], "value": one["Value"]})
        return {"return": True}


class Server(http.server.HTTPServer):
    request_queue_size = 64


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        try:
            if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
                raise Refused("AuthFailure", "AWS was not able to validate the provided access credentials")
            status, text = 200, self.server.cloud.answer(urllib.parse.parse_qsl(body, keep_blank_values=True))
        except Refused as refused:
            status = 500 if refused.code == "InsufficientInstanceCapacity" else 400
            text = f"<Response><Errors><Error><Code>{refused.code}</Code><Message>{xml.sax.saxutils.escape(str(refused))}</Message></Error></Errors><RequestID>r</RequestID></Response>"
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except ConnectionError:     # a client that was killed
            pass

    def log_message(self, *_):
        pass


def main():
    folder = sys.argv[1]
    cloud = Cloud(folder)
    cloud.write_objects()
    # One call after the other, in the thread whose end ends the instances.
    server = Server(("127.0.0.1", 8000), Handler)
    server.cloud = cloud
    with open(f"{folder}/ready", "w"):
        pass
    server.serve_forever()


if __name__ == "__main__":
    main()
