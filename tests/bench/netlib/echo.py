"""echo.py answer ADDRESS | ask ADDRESS: 8 bytes back and forth over one TCP connection; who asks prints the
median in microseconds."""
import socket
import statistics
import sys
import time

PORT = 7
ROUND_TRIPS = 2000


def answer(address):
    with socket.create_server((address, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := connection.recv(64):
            connection.sendall(data)


def ask(address):
    with socket.create_connection((address, PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times_us = []
        for _ in range(ROUND_TRIPS):
            start_s = time.perf_counter()
            connection.sendall(b"12345678")
            connection.recv(64)
            times_us.append((time.perf_counter() - start_s) * 1e6)
        print(statistics.median(times_us))


if __name__ == "__main__":
    {"answer": answer, "ask": ask}[sys.argv[1]](sys.argv[2])
