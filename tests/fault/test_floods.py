"""What a user can make long keeps no other user waiting."""
import raw
from floods import FloodTest
from harness import BLINKCTL
from raw import RawClient


class ConnectTest(FloodTest):
    def clients(self, daemon, count):
        clients = [RawClient(daemon) for _ in range(count)]
        for client in clients:
            self.addCleanup(client.close)
        return clients

    def test_connecting_in_a_loop_keeps_nobody_waiting(self):
        daemon = self.watched_daemon()
        bystanders = self.start_ranks(daemon, [6, 7], ["gate:begin", "allreduce:1000:float32:max"])
        for bystander in bystanders:
            bystander.wait_for_step("at-gate")
        attackers = [self.attack(daemon, "connect") for _ in range(3)]
        daemon.check_serves()
        self.await_heartbeats(2)
        for bystander in bystanders:
            bystander.say()
        for bystander in bystanders:
            self.assert_all_ok(bystander.finish())
        self.assertLess(self.descriptors(daemon), 200)
        for attacker in attackers:
            self.end_attack(attacker)
        self.check_turns(daemon)

    def test_who_says_nothing_is_disconnected(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=10))
        silent = self.clients(daemon, 42)
        for client in silent:
            self.assertEqual(client.receive().code, raw.TIMEOUT)
            self.assertTrue(client.closed_by_daemon())
        daemon.check_serves()

    def test_refused_connections_keep_no_descriptors(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=10))
        clients = self.clients(daemon, 300)
        refusal = clients[-1].receive()
        self.assertEqual(refusal.code, raw.QUOTA)
        self.assertRegex(refusal.text, r"\b42\b")
        self.assertLess(self.descriptors(daemon), 100)

    def test_a_refusal_says_why_to_programs_and_tools(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=0))
        for client in self.clients(daemon, 32):
            client.hello(want_ring=False)
        for _ in range(20):
            status, _, text = self.run_command([BLINKCTL, "--socket", daemon.socket, "status"])
            self.assertNotEqual(status, 0)
            self.assertIn("uses 32 and asks for 1 more; the limit is 32, connections_per_tenant", text)
        self.assert_step(self.start_client(daemon, []).finish(), "open", "QUOTA", "uses 32 and asks for 1 more")

    def test_connections_of_one_user_write_a_bounded_log(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=0))
        clients = self.clients(daemon, 32 + 1000)
        self.assertEqual(clients[-1].receive().code, raw.QUOTA)
        for client in clients:
            client.close()
        daemon.wait_for("the count", lambda blinkd: "lines more were not written" in blinkd.stderr())
        self.assertLess(len(daemon.stderr().splitlines()), 800)
