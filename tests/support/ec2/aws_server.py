#!/usr/bin/python3
"""Runs many calls of the AWS CLI quickly: loads it once, and forks a process for each call.

usage: aws_server.py SOCKET       prints "ready"; aws_call.py is the program to call in place of aws

The client is Debian's own, with its arguments, variables and standard files. Loading it takes half a second of a core, which
tests would spend hundreds of times.
"""
import json
import os
import selectors
import signal
import socket
import sys

sys.dont_write_bytecode = True
import awscli.clidriver  # noqa: E402


def serve_call(driver, request, files):
    """In the forked process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["aws", *request["arguments"]]
    try:
        code = driver.main(request["arguments"])
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


def main():
    driver = awscli.clidriver.create_clidriver()
    driver.session.get_service_model("ec2")  # a large file, cached from now on
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(sys.argv[1])
    listener.listen(64)
    calls = selectors.DefaultSelector()
    calls.register(listener, selectors.EVENT_READ)
    reaped, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    calls.register(reaped, selectors.EVENT_READ)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running = {}  # number of a process: its caller
    print("ready", flush=True)
    while True:
        for key, _ in calls.select():
            if key.fileobj is listener:
                caller, _ = listener.accept()
                text, files, _, _ = socket.recv_fds(caller, 1 << 17, 3)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os._exit(serve_call(driver, json.loads(text), files))
                for file in files:
                    os.close(file)
                running[pid] = caller
                calls.register(caller, selectors.EVENT_READ, pid)
            elif key.fileobj == reaped:
                os.read(reaped, 4096)
                while running:
                    pid, status = os.waitpid(-1, os.WNOHANG)
                    if pid == 0:
                        break
                    caller = running.pop(pid)
                    if caller in calls.get_map():
                        calls.unregister(caller)
                    try:
                        caller.send(str(os.waitstatus_to_exitcode(status)).encode())
                    except OSError:
                        pass  # it was killed
                    caller.close()
            else:  # the caller was killed: its call ends with it
                calls.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)


main()
