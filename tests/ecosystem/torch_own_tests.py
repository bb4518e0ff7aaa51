#!/usr/bin/env python3
"""torch_own_tests.py [--world N] [--reserved-for BACKEND] [NAME…]: the tests of torch.distributed that are in
PyTorch's wheel, with the backend "blink". Ranks are forked, for an import of the tests takes seconds.
--reserved-for: also the tests that are skipped by name with all backends but that one. NAME: these alone."""
import argparse
import importlib
import os
import sys
import tempfile
import unittest
from functools import partial

import torch.multiprocessing


def own_class(module):
    class Own(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)
    return Own


def with_blink(init_process_group, *arguments, backend=None, **options):
    return init_process_group(*arguments, backend="blink", **options)


class OneLine(unittest.TextTestResult):
    """Says how each test ended and, of those that were skipped, why."""

    def getDescription(self, test):
        return test._testMethodName


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--world", type=int, default=2)
    options.add_argument("--reserved-for", default="blink")
    options.add_argument("names", nargs="*")
    options = options.parse_args()
    os.environ |= {"BACKEND": options.reserved_for, "WORLD_SIZE": str(options.world),
                   "TEMP_DIR": tempfile.gettempdir(), "MASTER_ADDR": "127.0.0.1"}
    module = importlib.import_module("torch.testing._internal.distributed.distributed_test")
    # The tests go on to look at the name that they were loaded with.
    module.dist.init_process_group = partial(with_blink, module.dist.init_process_group)
    own = own_class(module)
    names = options.names or unittest.TestLoader().getTestCaseNames(own)
    suite = unittest.TestSuite(map(own, names))
    result = unittest.TextTestRunner(verbosity=2, resultclass=OneLine, stream=sys.stdout).run(suite)
    print(f"{result.testsRun - len(result.skipped) - len(result.failures) - len(result.errors)} passed, "
          f"{len(result.failures) + len(result.errors)} failed, {len(result.skipped)} skipped")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
