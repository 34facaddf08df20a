"""Protocol buffers, as far as kubectl needs them: typed objects that `kubectl create` sends from 1.32 on, and messages to encode."""
import base64

from objects import Refused


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """The fields of a message as (number, value): integers, and bytes for all that has a length."""
    at, found = 0, []
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if tag & 7 == 2:
            value, at = data[at:at + value], at + value
        found.append((tag >> 3, value))
    return found


def entry(data):
    """An entry of a map, as (key, value)."""
    both = dict(fields(data))
    return both[1].decode(), both.get(2, b"")


def decode_object(body):
    """A Secret, a ConfigMap or a Namespace: a magic word, runtime.Unknown, and in it the object."""
    unknown = dict(fields(body[4:]))
    type_ = dict(fields(unknown[1]))
    kind = type_[2].decode()
    if kind == "DeleteOptions":
        return {}
    if kind not in ("Secret", "ConfigMap", "Namespace"):
        raise Refused(415, "UnsupportedMediaType", f"the stand-in reads a {kind} as JSON only: kubectl apply")
    thing = {"apiVersion": type_[1].decode(), "kind": kind, "metadata": {}}
    of_object = fields(unknown[2])
    for number, value in fields(dict(of_object)[1]):
        if number in (1, 3) and value:
            thing["metadata"]["name" if number == 1 else "namespace"] = value.decode()
        if number in (11, 12):
            key, text = entry(value)
            thing["metadata"].setdefault("labels" if number == 11 else "annotations", {})[key] = text.decode()
    for number, value in of_object:
        if number == 2 and kind != "Namespace":
            key, data = entry(value)
            thing.setdefault("data", {})[key] = base64.b64encode(data).decode() if kind == "Secret" else data.decode()
        if number == 3 and kind == "Secret":
            thing["type"] = value.decode()
    return thing


def varint(value):
    result = b""
    while value > 127:
        result += bytes([value & 127 | 128])
        value >>= 7
    return result + bytes([value])


def message(*pairs):
    """Encodes (number, bytes or text) as fields with a length."""
    result = b""
    for number, value in pairs:
        data = value.encode() if isinstance(value, str) else value
        result += varint(number << 3 | 2) + varint(len(data)) + data
    return result
