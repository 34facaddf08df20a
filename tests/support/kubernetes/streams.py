"""Streams of containers: logs, and exec over WebSocket (v5.channel.k8s.io) and SPDY/3.1 (v4.channel.k8s.io)."""
import asyncio
import collections
import json
import struct
import zlib

from aiohttp import WSMsgType, web

from objects import Refused

BLOCK = 32 << 10  # bytes of a frame to the client
POLL = 0.05  # seconds
CHANNELS = {"stdin": 0, "stdout": 1, "stderr": 2, "error": 3}


async def answer_log(request, path, is_over):
    """The file, and with follow=true everything that comes until `is_over()`."""
    follow = request.query.get("follow") in ("1", "true")
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    with open(path, "rb") as file:
        if "tailLines" in request.query:
            count = int(request.query["tailLines"])
            lines = collections.deque(file, maxlen=count)
            await response.write(b"".join(lines))
        try:
            while True:
                was_over = is_over()  # before the read, so that the last lines are read too
                data = file.read(1 << 16)
                if data:
                    await response.write(data)
                elif not follow or was_over:
                    break
                else:
                    await asyncio.sleep(POLL)
        except ConnectionError:
            pass
    return response


def exit_status(code):
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    code = 128 - code if code < 0 else code
    return {"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


async def answer_exec(request, command):
    """Runs a command with its streams at the client; if the client leaves, the command's stdin ends and it goes on."""
    if request.query.get("tty") in ("1", "true"):
        raise Refused(400, "BadRequest", "the stand-in has no terminals: leave out -t")
    has_stdin = request.query.get("stdin") in ("1", "true")
    upgrade = request.headers.get("Upgrade", "").lower()
    if upgrade not in ("websocket", "spdy/3.1"):
        raise Refused(400, "BadRequest", "Upgrade request required")
    session = WebSocketSession(request) if upgrade == "websocket" else SpdySession(request)
    try:
        await session.open({"error", "stdout", "stderr"} | ({"stdin"} if has_stdin else set()))
    except (ConnectionError, asyncio.IncompleteReadError):
        return session.response()
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE if has_stdin else asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, limit=1 << 20, start_new_session=True)

    async def feed():
        async for data in session.input():
            try:
                if process.stdin and data:
                    process.stdin.write(data)
                    await process.stdin.drain()
                elif process.stdin:
                    process.stdin.close()
            except (ConnectionError, RuntimeError):
                pass  # the command has closed its stdin
        if process.stdin:
            process.stdin.close()

    async def send(stream, name):
        while data := await stream.read(BLOCK):
            try:
                await session.send(name, data)
            except ConnectionError:
                pass  # the client has left; the command must not wait for it

    feeding = asyncio.create_task(feed())
    await asyncio.gather(send(process.stdout, "stdout"), send(process.stderr, "stderr"))
    code = await process.wait()
    try:
        await session.finish(json.dumps(exit_status(code)).encode())
    except ConnectionError:
        pass
    feeding.cancel()
    return session.response()


class WebSocketSession:
    """Each message begins with the number of its channel; 255 and a channel says that nothing more comes there."""

    def __init__(self, request):
        self.request = request
        self.socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"), max_msg_size=0, compress=False)

    async def open(self, _):
        await self.socket.prepare(self.request)

    async def input(self):
        async for message in self.socket:
            if message.type == WSMsgType.BINARY and message.data[:1] == b"\0" and len(message.data) > 1:
                yield message.data[1:]
            elif message.type == WSMsgType.BINARY and message.data == b"\xff\0":
                yield b""

    async def send(self, name, data):
        await self.socket.send_bytes(bytes([CHANNELS[name]]) + data)

    async def finish(self, status):
        if not self.socket.closed:
            await self.send("error", status)
            await self.socket.close()

    def response(self):
        return self.socket


# The words and the text of the dictionary with which SPDY/3 compresses headers.
WORDS = """options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow authorization
cache-control connection content-base content-encoding content-language content-length content-location content-md5 content-range
content-type date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since last-modified
location max-forwards pragma proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding
upgrade user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive origin"""
TEXT = ("100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative Information204 "
        "No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not "
        "Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, "
        "GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
        "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.")
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in WORDS.split()) + TEXT.encode()
SYN_STREAM, SYN_REPLY, PING, GOAWAY = 1, 2, 6, 7
LAST = 1  # flag: nothing more comes on the stream


class SpdySession:
    """Streams of one connection, each named by a header. Neither side keeps SPDY's windows: kubectl does not look at them."""

    def __init__(self, request):
        self.request, self.transport = request, request.transport
        self.inflate, self.deflate = zlib.decompressobj(zdict=DICTIONARY), zlib.compressobj(zdict=DICTIONARY)
        self.streams = {}  # number by name

    async def open(self, names):
        offered = [one.strip() for header in self.request.headers.getall("X-Stream-Protocol-Version", []) for one in header.split(",")]
        if "v4.channel.k8s.io" not in offered:
            raise Refused(403, "Forbidden", f"unable to upgrade: unable to negotiate protocol: client supports {offered}")
        self.before = self.transport.get_protocol()
        self.reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self.reader)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        self.transport.resume_reading()
        self.writer = asyncio.StreamWriter(self.transport, protocol, self.reader, asyncio.get_running_loop())
        self.writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
                          b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n")
        while not names <= set(self.streams):
            await self.read_frame()

    async def read_frame(self):
        """Handles one frame; returns what came on stdin (b"" for its end), or None."""
        first, second = struct.unpack(">II", await self.reader.readexactly(8))
        flags, payload = second >> 24, await self.reader.readexactly(second & 0xffffff)
        if not first >> 31:
            if first != self.streams.get("stdin"):
                return None
            return payload or (b"" if flags & LAST else None)
        kind = first & 0xffff
        if kind == SYN_STREAM:
            number = struct.unpack(">I", payload[:4])[0]
            self.streams[self.headers(payload[10:])["streamtype"]] = number
            self.control(SYN_REPLY, struct.pack(">I", number) + self.deflate.compress(bytes(4)) + self.deflate.flush(zlib.Z_SYNC_FLUSH))
        elif kind == PING:
            self.control(PING, payload)
        elif kind == GOAWAY:
            raise ConnectionResetError
        return None

    def headers(self, block):
        data, at, texts = self.inflate.decompress(block), 4, []
        for _ in range(2 * struct.unpack(">I", data[:4])[0]):
            length = struct.unpack(">I", data[at:at + 4])[0]
            texts.append(data[at + 4:at + 4 + length].decode())
            at += 4 + length
        return dict(zip((one.lower() for one in texts[::2]), texts[1::2]))

    def control(self, kind, payload):
        self.writer.write(struct.pack(">HHI", 0x8003, kind, len(payload)) + payload)

    async def input(self):
        try:
            while True:
                data = await self.read_frame()
                if data is not None:
                    yield data
        except (ConnectionError, asyncio.IncompleteReadError):
            return

    async def send(self, name, data, flags=0):
        self.writer.write(struct.pack(">II", self.streams[name], flags << 24 | len(data)) + data)
        await self.writer.drain()

    async def finish(self, status):
        for name in ("stdout", "stderr"):
            await self.send(name, b"", LAST)
        await self.send("error", status, LAST)

    def response(self):
        """Called last: gives the connection back to aiohttp, closed."""
        if self.transport.is_closing():
            self.before.connection_lost(None)
        else:
            self.transport.set_protocol(self.before)
            self.transport.close()
        return web.Response()
