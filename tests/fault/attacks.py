"""What a hostile user does to the daemon, each attack a command: attacks.py NAME SOCKET UID.

An attack prints "ready" when it has begun, and goes on until it is killed or its standard input ends.
"""
import os
import socket
import struct
import sys
import threading
import types

import raw
from raw import RawClient, message


def connect(path):
    """connect(); close() in a loop, without a word."""
    print("ready", flush=True)
    while True:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
            except OSError:
                pass


def frame(number, kind, body=b""):
    payload = message(_1=number) + raw.field(kind, body)
    return struct.pack("<I", len(payload)) + payload


def greeted(path, want_ring=True):
    client = RawClient(types.SimpleNamespace(socket=path))
    reply = client.hello(want_ring=want_ring)
    if reply is None or reply.code:
        raise SystemExit(f"not connected: {reply and reply.text}")
    return client


def end_with_input():
    """The attack ends when its parent wants, and not before."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()


if __name__ == "__main__":
    end_with_input()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(int(sys.argv[3]))
        os.setuid(int(sys.argv[3]))
    globals()[sys.argv[1]](sys.argv[2])
