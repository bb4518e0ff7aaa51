"""Clients that check what they receive, in groups that each have one communicator at a time, and what is done
to them: kills, stops, aborts, exits and ranks that never come."""
import json
import os
import signal
import subprocess
import time

#: What may happen in a round, and what ends the round for the others.
FAULTS = ["none", "none", "none", "kill", "kill", "stop", "abort", "exit", "absent"]

#: How a communicator may end for ranks of a group to which something was done.
EXPECTED = {"BLINK_OK", "BLINK_ERR_PEER_LOST", "BLINK_ERR_ABORTED", "BLINK_ERR_TIMEOUT"}


class Client:
    """A blink-rank process that does rounds."""

    def __init__(self, daemon, uid):
        who = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        self.child = subprocess.Popen([daemon.programs["blink-rank"], "--socket", daemon.socket, "script"],
                                      bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, env=daemon.client_environment(), **who)
        os.set_blocking(self.child.stdout.fileno(), False)
        self.partial = b""
        self.connected = False
        self.forget()

    def forget(self):
        """A new round begins."""
        self.results, self.wrong, self.texts, self.through = [], 0, [], False

    def say(self, line):
        try:
            self.child.stdin.write(line.encode() + b"\n")
        except OSError:
            pass

    def read(self):
        """Take in what it has reported."""
        try:
            data = self.child.stdout.read() or b""
        except OSError:
            data = b""
        *lines, self.partial = (self.partial + data).split(b"\n")
        for line in lines:
            report = json.loads(line)
            self.results.append(report["result"])
            self.wrong += report["wrong"]
            if report["result"] != "BLINK_OK" or report["wrong"]:
                self.texts.append(report["text"])
            self.through |= report["step"].startswith("round:")
            self.connected |= report["step"] == "open"

    def result(self):
        return next((result for result in self.results if result != "BLINK_OK"), "BLINK_OK")

    def gone(self):
        return self.child.poll() is not None

    def end(self):
        if not self.gone():
            self.child.kill()
            self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


class Group:
    """Clients of one user that meet in rounds. tally is a counter of what has happened."""

    def __init__(self, daemon, uid, size, devices, source, tally, patience_s):
        self.daemon, self.uid, self.size, self.devices = daemon, uid, size, devices
        self.source, self.tally, self.patience_s = source, tally, patience_s
        self.clients = [Client(daemon, uid) for _ in range(size)]
        self.fault = None
        self.running = False
        self.troubles = []

    def begin(self, faults):
        """Have all join a new communicator. `faults`: what may be done to one of them."""
        source = self.source
        self.fault = source.choice(faults)
        self.target = source.randrange(self.size)
        self.act_at = time.monotonic() + source.uniform(0, 0.3)
        self.resume_at = self.act_at + source.uniform(0.05, 1.5)
        self.acted = self.resumed = False
        identifier, seed = f"{source.getrandbits(128):032x}", source.getrandbits(32)
        ops = source.randrange(1, 30)
        for rank, (client, device) in enumerate(zip(self.clients, source.sample(self.devices, self.size))):
            client.forget()
            last = self.fault if rank == self.target and self.fault in ("abort", "exit") else "destroy"
            if not (rank == self.target and self.fault == "absent"):
                client.say(f"round:{identifier}:{self.size}:{rank}:{device}:{ops}:{seed}:{last}")
        self.deadline = time.monotonic() + self.patience_s
        self.running = True

    def connected(self):
        """Whether all that live are clients of the daemon by now."""
        for client in self.clients:
            client.read()
        return all(client.connected or client.gone() for client in self.clients)

    def turn(self):
        """Do what is due to the target, and see whether the round is over."""
        now, target = time.monotonic(), self.clients[self.target]
        if not self.acted and now >= self.act_at:
            self.acted = True
            if self.fault in ("kill", "absent"):
                target.child.kill()
                target.child.wait()
            elif self.fault == "stop":
                os.kill(target.child.pid, signal.SIGSTOP)
        if self.fault == "stop" and self.acted and not self.resumed and now >= self.resume_at:
            self.resumed = True
            os.kill(target.child.pid, signal.SIGCONT)
        for client in self.clients:
            client.read()
        if all(client.through or client.gone() for client in self.clients) and self.acted and (
                self.fault != "stop" or self.resumed):
            self._finish()
        elif now > self.deadline:
            self._hang()

    def _trouble(self, kind, client):
        self.tally[kind] += 1
        self.troubles.append(f"{kind}: user {self.uid}, fault {self.fault}, {client.result()}, "
                             f"{client.wrong} wrong, exit status {client.child.poll()}, "
                             f"{'; '.join(client.texts)[:200]}")

    def _finish(self):
        self.tally["rounds"] += 1
        for number, client in enumerate(self.clients):
            is_target = number == self.target and self.fault in ("kill", "absent", "exit")
            if client.wrong:
                self._trouble("wrong results", client)
            elif client.gone() and not is_target:
                self._trouble("clients that ended", client)
            elif self.fault in ("none", "stop") and client.result() != "BLINK_OK":
                self._trouble("undisturbed rounds that failed", client)
            elif not client.gone() and client.result() not in EXPECTED:
                self._trouble("unexpected results", client)
        if self.fault != "none":
            self.tally[self.fault] += 1
        self._replace_gone()
        self.running = False

    def _hang(self):
        for client in self.clients:
            if not client.through and not client.gone():
                self._trouble("hangs", client)
                client.end()
        self._replace_gone()
        self.running = False

    def _replace_gone(self):
        for number, client in enumerate(self.clients):
            if client.gone():
                client.end()
                self.clients[number] = Client(self.daemon, self.uid)

    def end(self):
        for client in self.clients:
            client.end()
