"""How long something may take before it counts as hung. No test asserts times."""
import os

LIMIT_S = 60 * float(os.environ.get("BLINK_TEST_TIMEOUT_SCALE", "1"))

#: A time-out that a test wants to see pass: as short as it may be where processes of a busy machine come
#: late.
SHORT_S = LIMIT_S / 20
