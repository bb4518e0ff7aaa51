"""scripts/chaos for a short time: nobody hangs, gets wrong results or fails for what others do."""
import os
import re
import sys
import unittest

import harness
from harness import IntegrationTest

CHAOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/chaos")


class ChaosTest(IntegrationTest):
    def run_chaos(self, *flags):
        """Its counts by their names."""
        chaos = self.start([sys.executable, "-B", CHAOS, "--build", os.environ["BUILD_DIR"], "--patience",
                            harness.LIMIT_S, "--watchdog", harness.LIMIT_S, *flags])
        chaos.child.wait(10 * harness.LIMIT_S)
        self.assertEqual(chaos.wait(), 0, chaos.describe())
        out = chaos.stdout()
        return {name.strip(): int(count) for name, count in re.findall(r"^(\D+?) +(\d+)$", out, re.MULTILINE)}

    def test_clients_survive_everything_at_once(self):
        counts = self.run_chaos("--minutes", "0.3", "--seed", "1")
        self.assertGreater(counts["rounds"], 0)
        self.assertEqual(counts["hangs"] + counts["wrong results"], 0)

    def test_clients_alone_lose_nothing(self):
        counts = self.run_chaos("--minutes", "0.1", "--seed", "2", "--soak")
        self.assertGreater(counts["rounds"], 0)
        self.assertEqual(counts["kills survived"] + counts["attacks survived"], 0)


if __name__ == "__main__":
    unittest.main()
