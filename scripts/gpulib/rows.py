"""Checks as rows of one table, printed as they end: what, command, verdict, seconds. After the budget the
rest is skipped."""
import time

from .processes import Failure

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
NAME_WIDTH = 52


class Skip(Exception):
    """This check cannot be made here; the text says why."""


class Row:
    """`check(limit_s)` raises Failure or Skip; quick rows are those that a machine without a GPU runs,
    too."""

    def __init__(self, name, command, check, quick=False, limit_s=120):
        self.name, self.command, self.check, self.quick, self.limit_s = name, command, check, quick, limit_s


class Table:
    def __init__(self, budget_s):
        self.deadline = time.monotonic() + budget_s
        self.counts = {PASS: 0, FAIL: 0, SKIP: 0}
        self.lines = []

    def left_s(self):
        return self.deadline - time.monotonic()

    def header(self, text):
        self.say(text)
        self.say(f"{'':4}  {'seconds':>7}  {'what':{NAME_WIDTH}}  command")

    def say(self, text):
        self.lines.append(text)
        print(text, flush=True)

    def add(self, row, verdict, seconds, reason=""):
        self.counts[verdict] += 1
        self.say(f"{verdict}  {seconds:7.1f}  {row.name:{NAME_WIDTH}}  {row.command}")
        if reason:
            self.say(f"{'':15}{reason}")

    def run(self, row):
        if self.left_s() <= 0:
            self.add(row, SKIP, 0, "the budget is spent")
            return
        start = time.monotonic()
        verdict, reason = PASS, ""
        try:
            row.check(min(row.limit_s, self.left_s()))
        except Skip as skip:
            verdict, reason = SKIP, str(skip)
        except Failure as failure:
            verdict, reason = FAIL, str(failure)
            if self.left_s() <= 0:
                verdict, reason = SKIP, f"the budget was spent: {failure}"
        except Exception as error:  # one broken check is not the end of the others
            verdict, reason = FAIL, f"{type(error).__name__}: {error}"
        self.add(row, verdict, time.monotonic() - start, reason)

    def skip_all(self, rows, reason):
        for row in rows:
            self.add(row, SKIP, 0, reason)

    def fail_all(self, rows, reason):
        for row in rows:
            self.add(row, FAIL, 0, reason)

    def failed(self):
        return self.counts[FAIL] > 0

    def summary(self):
        return f"{self.counts[PASS]} passed, {self.counts[FAIL]} failed, {self.counts[SKIP]} skipped"
