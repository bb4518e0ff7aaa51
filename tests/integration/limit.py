"""How long something may take before it counts as hung. No test asserts times."""
import os

LIMIT_S = 60 * float(os.environ.get("BLINK_TEST_TIMEOUT_SCALE", "1"))
