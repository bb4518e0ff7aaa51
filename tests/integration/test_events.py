"""blinkctl events: what the daemon remembers of what has happened, and to whom it shows it."""
import os
import unittest

from harness import IntegrationTest, new_id

SHORT = "allreduce:100:float32:sum"


class EventsTest(IntegrationTest):
    def events(self, daemon, *arguments):
        """The oldest first."""
        return self.ctl_json(daemon, "events", *arguments)["events"][::-1]

    def lose_a_rank(self, daemon):
        identifier = new_id()
        ranks = [self.start_rank(daemon, identifier, 2, rank, steps)
                 for rank, steps in enumerate(([SHORT, SHORT], [SHORT, "gate:late", "kill"]))]
        ranks[1].wait_for_step("at-gate")
        self.until(lambda: len(self.ctl_json(daemon, "ops", "1")["ops"]) == 2)
        ranks[1].say()
        self.assert_step(ranks[0].finish(), SHORT, "PEER_LOST")
        ranks[1].finish()
        self.until(lambda: not self.ctl_json(daemon, "clients")["clients"])

    def test_what_became_of_a_communicator_is_told_after_its_end(self):
        daemon = self.daemon("--log-level", "error")
        self.lose_a_rank(daemon)
        events = self.events(daemon)
        self.assertEqual([event["event"] for event in events], list(range(1, len(events) + 1)))
        self.assertEqual(events[0]["kind"], "daemon-started")
        self.assertIsNone(events[0]["uid"])
        kinds = [event["kind"] for event in events]
        self.assertEqual((kinds.count("client-came"), kinds.count("client-gone")), (2, 2))
        of_comm = self.events(daemon, "--comm", "1")
        self.assertEqual([event["kind"] for event in of_comm],
                         ["comm-made", "comm-lost", "comm-lost", "comm-lost", "comm-ended"])
        _, why, oldest, last, _ = [event["text"] for event in of_comm]
        self.assertIn("rank 1", why)
        self.assertRegex(oldest, r"^its oldest op is allreduce 2 of 400 bytes, .* it lacks rank 1$")
        self.assertRegex(last, r"^its last op to end was allreduce 1 of 400 bytes, ")
        self.assertEqual({(event["uid"], event["subject"]) for event in of_comm},
                         {(os.geteuid(), "communicator 1")})
        self.assertRegex(self.ctl(daemon, "events"),
                         r"(?m)^[\d-]+ [\d:.]+ +comm-lost +\d+ +communicator 1 +its last op ")
        shown = self.ctl(daemon, "top", "--once")
        self.assertRegex(shown, r"(?m)^[\d-]+ [\d:.]+ +comm-lost +communicator 1 +its oldest op is ")
        self.assertEqual(daemon.stderr(), "")

    def test_what_a_limit_refuses_is_an_event(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=1))
        first = self.start_client(daemon, ["gate"])
        first.wait_for_step("at-gate")
        second = self.start_client(daemon, ["gate"])
        second.finish()
        [refused] = [event for event in self.events(daemon) if event["kind"] == "client-refused"]
        self.assertEqual(refused["subject"], f"pid {second.pid}")
        self.assertIn("clients_per_tenant", refused["text"])
        first.say()
        first.finish()

    @unittest.skipIf(os.geteuid() != 0, "only root may become another user")
    def test_a_user_is_shown_its_own_and_the_hosts(self):
        daemon = self.daemon()
        self.lose_a_rank(daemon)
        status, out, err = self.ctl_of_nobody(daemon, "events")
        self.assertEqual(status, 0, err)
        self.assertEqual([line.split()[2] for line in out.splitlines()[1:]], ["daemon-started"])


if __name__ == "__main__":
    unittest.main()
