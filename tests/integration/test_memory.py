"""Memory that collectives may use, and memory they must refuse."""
import unittest

from harness import IntegrationTest

GOOD = "allreduce:1000:float32:sum"


class MemoryTest(IntegrationTest):
    def check_fault(self, kind, result, *texts):
        """Both ranks make the bad call, then a good one."""
        daemon = self.daemon()
        for reported in self.run_ranks(daemon, [0, 1], [f"fault:{kind}", GOOD]):
            self.assert_step(reported, f"fault:{kind}", result, *texts)
            self.assert_step(reported, GOOD, "OK")

    def test_buffer_past_its_region(self):
        """256 floats that end 4 bytes behind the page."""
        self.check_fault("past-region", "OUT_OF_RANGE", r"\b4\b")

    def test_misaligned_buffer(self):
        self.check_fault("misaligned", "INVALID_ARGUMENT")

    def test_overlapping_buffers(self):
        self.check_fault("overlap", "INVALID_ARGUMENT", "overlap")

    def test_no_buffer(self):
        daemon = self.daemon()
        for reported in self.run_ranks(daemon, [0, 1], ["fault:null", GOOD]):
            self.assertIn(self.find(reported, "fault:null")["result"],
                          ["BLINK_ERR_INVALID_ARGUMENT", "BLINK_ERR_NOT_REGISTERED"])
            self.assert_step(reported, GOOD, "OK")

    def test_unknown_type(self):
        self.check_fault("datatype", "INVALID_ARGUMENT", r"\b77\b")

    def test_unknown_operator(self):
        self.check_fault("redop", "INVALID_ARGUMENT", r"\b9\b")

    def test_root_outside_the_ranks(self):
        self.check_fault("root", "INVALID_ARGUMENT", r"\b64\b", r"\b2\b")
        self.check_fault("negative-root", "INVALID_ARGUMENT", "-1")

    def test_count_that_overflows(self):
        self.check_fault("count-overflow", "INVALID_ARGUMENT")


class RegistrationTest(IntegrationTest):
    def check(self, kind, result, *texts):
        daemon = self.daemon()
        steps = [f"memfd:{kind}", GOOD]
        for reported in self.run_ranks(daemon, [0, 1], steps):
            self.assert_step(reported, steps[0], result, *texts)
            self.assert_step(reported, GOOD, "OK")
        self.assertEqual([client["region_count"] for client in self.ctl_json(daemon, "clients")["clients"]
                          if client["program"] != "blinkctl"], [])

    def test_sealed_memory_of_ones_own(self):
        self.check("good", "OK")

    def test_unsealed_memory_is_refused(self):
        self.check("unsealed", "INVALID_ARGUMENT", "F_SEAL_SHRINK")

    def test_memory_sealed_against_writing_is_refused(self):
        self.check("write-sealed", "INVALID_ARGUMENT", "(?i)writ")

    def test_a_pipe_is_refused(self):
        self.check("pipe", "INVALID_ARGUMENT")

    def test_a_closed_descriptor_is_refused(self):
        self.check("closed", "INVALID_ARGUMENT")

    def test_a_mapping_longer_than_its_file_is_refused(self):
        self.check("too-long", "INVALID_ARGUMENT")

    def test_a_misaligned_offset_is_refused(self):
        self.check("misaligned-offset", "INVALID_ARGUMENT")

    def test_the_same_memory_twice_is_refused(self):
        self.check("twice", "EXISTS")

    def test_deregistering_the_middle_of_a_region_is_refused(self):
        self.check("inner-deregister", "NOT_REGISTERED")


if __name__ == "__main__":
    unittest.main()
