"""What a tenant makes the daemon keep has a budget, and goes back to the system. All checks count bytes."""
import os
import re
import struct
import time
import unittest

import raw
from harness import ALL, BLINK_PERF, IntegrationTest, new_id
from raw import message, open_client

MB = 1 << 20


class BudgetTest(IntegrationTest):
    def limited_daemon(self, **limits):
        return self.daemon("--pace", "0.05", *self.limits(**limits), topology="dgx1v_hybrid")

    def used(self, daemon, resource):
        """Of this user, besides what the question itself takes."""
        [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
        return tenant["budgets"][resource]["used"]

    def peak_while(self, daemon, process):
        """The most anonymous memory that the daemon was seen to have until the process ended."""
        peak = 0
        while process.child.poll() is None:
            peak = max(peak, daemon.anonymous_bytes())
            time.sleep(0.001)  # the group needs the processors, too
        self.assertEqual(process.wait(), 0, process.describe())
        return peak

    def start_group(self, daemon, ops, size="1M"):
        """AllReduces on all devices in one group."""
        return self.start([BLINK_PERF, "allreduce", "--socket", daemon.socket, "--ranks", "8",
                           "--in-place=yes", "-b", size, "-e", size, "-w", "0", "-n", "1", "--groups", ops,
                           "--check=0"])


# A sanitizer keeps what is freed, so that what the process has says nothing about the daemon.
unsanitized = unittest.skipIf(os.environ.get("SANITIZE"), "a sanitizer keeps freed memory")


@unsanitized
class ScratchTest(BudgetTest):
    def test_a_group_waits_for_scratch_and_stays_within_the_budget(self):
        """Each op takes some 9 MB: without a budget sixteen of them take more than 100."""
        daemon = self.limited_daemon(scratch_bytes_per_tenant="20M", idle_scratch_bytes="10M")
        before = daemon.anonymous_bytes()
        peak = self.peak_while(daemon, self.start_group(daemon, 16))
        self.assertLess(peak - before, 48 * MB)

    def test_an_op_that_needs_more_than_the_budget_runs_by_itself(self):
        daemon = self.limited_daemon(scratch_bytes_per_tenant="64K", scratch_bytes_per_node="256K",
                                     idle_scratch_bytes="0")
        before = daemon.anonymous_bytes()
        peak = self.peak_while(daemon, self.start_group(daemon, 8))
        self.assertLess(peak - before, 32 * MB)

    def check_group(self, ops):
        """AllReduces of 1 MiB by eight ranks: every element that arrives is right, and memory has its
        bound: what the budget holds, what may be kept idle, and what ops and plans are themselves."""
        daemon = self.limited_daemon(scratch_bytes_per_tenant="20M", idle_scratch_bytes="10M")
        before = daemon.anonymous_bytes()
        group = f"group:{ops}:allreduce:{MB // 4}:float32:sum:inplace"
        ranks = self.start_rank(daemon, new_id(), 8, ALL, [group], ALL)
        self.assertLess(self.peak_while(daemon, ranks) - before, 48 * MB)
        self.assert_all_ok(ranks.steps())
        self.assertEqual(sum(step["step"] == group for step in ranks.steps()), 8)

    def test_results_of_a_group_of_40_that_waits_for_scratch(self):
        """Without a budget its runs take 320 MB."""
        self.check_group(40)

    def test_results_of_a_group_of_500_that_waits_for_scratch(self):
        self.check_group(500)

    def test_a_communicator_that_ends_takes_its_waiting_ops_along(self):
        daemon = self.limited_daemon(scratch_bytes_per_tenant="64K", scratch_bytes_per_node="256K")
        for _ in range(3):
            group = self.start_group(daemon, 20)
            self.until(lambda: daemon.anonymous_bytes() > 4 * MB or group.child.poll() is not None)
            group.kill()
        self.until(lambda: not self.ctl_json(daemon, "comms")["comms"])
        self.peak_while(daemon, self.start_group(daemon, 5))


@unsanitized
class IdleTest(BudgetTest):
    def test_memory_goes_back_when_traffic_has_ended(self):
        daemon = self.limited_daemon(idle_scratch_s="0.5", cached_plan_s="0.5")
        before = daemon.anonymous_bytes()
        peak = self.peak_while(daemon, self.start_group(daemon, 6))
        self.assertGreater(peak - before, 20 * MB)
        self.until(lambda: daemon.anonymous_bytes() - before < 4 * MB)

    def test_memory_after_ten_rounds_is_that_after_two(self):
        daemon = self.limited_daemon(idle_scratch_s="0.5", cached_plan_s="0.5")
        sizes = ["64K", "1M", "8"]

        def run_round():
            for size in sizes:
                self.peak_while(daemon, self.start_group(daemon, 2, size))

        for _ in range(2):
            run_round()
        after_two = daemon.anonymous_bytes()
        for _ in range(8):
            run_round()
        self.until(lambda: daemon.anonymous_bytes() <= max(after_two, 8 * MB))


class TenantsTest(BudgetTest):
    def test_use_and_limits_are_shown(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=7))
        self.start_client(daemon, ["gate:here"]).wait_for_step("at-gate")
        [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
        self.assertEqual((tenant["uid"], tenant["cgroup"], tenant["weight"]), (os.geteuid(), "", 1))
        self.assertEqual(tenant["budgets"]["clients"], {"used": 1, "limit": 7})
        self.assertEqual(tenant["budgets"]["connections"]["used"], 2)
        self.assertRegex(self.ctl(daemon, "tenants"), r"clients +1 +7\b")

    def test_a_user_in_two_cgroups_is_shown_as_a_tenant_of_a_cgroup(self):
        daemon = self.daemon(*self.limits(tenants_by="cgroup"))
        [tenant] = self.ctl_json(daemon, "tenants")["tenants"]
        with open("/proc/self/cgroup", encoding="utf-8") as cgroups:
            self.assertIn(":" + tenant["cgroup"] + "\n", cgroups.read())


class MessageTest(BudgetTest):
    def test_a_refusal_names_limit_use_and_setting(self):
        daemon = self.daemon(*self.limits(clients_per_tenant=2))
        for _ in range(2):
            self.start_client(daemon, ["gate:here"]).wait_for_step("at-gate")
        self.assert_step(self.start_client(daemon, []).finish(), "open", "QUOTA",
                         r"uses 2 and asks for 1 more; the limit is 2, clients_per_tenant")

    def test_a_share_shrinks_with_what_there_is_for_all(self):
        daemon = self.daemon(*self.limits(clients_per_node=4))
        for _ in range(2):
            self.start_client(daemon, ["gate:here"]).wait_for_step("at-gate")
        self.assert_step(self.start_client(daemon, []).finish(), "open", "QUOTA",
                         r"its share beside 0 tenants is 2 of the 4 of clients_per_node")


class OpTest(BudgetTest):
    def members(self, client):
        """Both ranks of a communicator are the client's."""
        return [reply.body(5)[1] for reply in raw.join_all([client, client])]

    def test_ops_that_nobody_matches_are_charged_until_the_budget_refuses_them(self):
        daemon = self.daemon(*self.limits(op_bytes_per_tenant="64K"))
        client = open_client(self, daemon)
        members = self.members(client)
        for number in range(20):
            client.submit(raw.BARRIER, members[0], user_data=number)
        self.until(lambda: self.used(daemon, "op_bytes") > 20 * 256)
        for number in range(20, 300):
            client.submit(raw.BARRIER, members[0], user_data=number)
        ended = {number: (result, text) for number, result, text in (client.reap() for _ in range(300))}
        for number in range(300):
            result, text = ended[number]
            self.assertEqual(result, raw.QUOTA)
            self.assertRegex(text, r"asks for \d+ more; the limit is 65536, op_bytes_per_tenant")
        daemon.check_serves()
        for member in members:
            self.assertEqual(client.request(raw.COMM_DESTROY, message(_1=member)).code, 0)
        self.until(lambda: self.used(daemon, "op_bytes") == 0)

    def test_a_group_that_meets_the_budget_fails_as_a_whole(self):
        daemon = self.daemon(*self.limits(op_bytes_per_tenant="64K"))
        client = open_client(self, daemon)
        members = self.members(client)
        for _ in range(200):
            client.submit(raw.BARRIER, members[0], flags=raw.MORE)
        client.submit(raw.BARRIER, members[0], user_data=7)
        self.assertEqual(client.reap()[:2], (7, raw.QUOTA))
        client.close()
        self.until(lambda: self.used(daemon, "op_bytes") == 0)
        daemon.check_serves()

    def test_refused_entries_and_their_texts_are_charged(self):
        """Each fails at once and says why, and is kept until the other rank has come to it."""
        daemon = self.daemon(*self.limits(op_bytes_per_tenant="64K"))
        client = open_client(self, daemon)
        members = self.members(client)

        def submit(member):
            client.submit(raw.ALLREDUCE, member, 10, in_region=77, out_region=77)
            return client.reap()[1]
        self.assertEqual({submit(members[0]) for _ in range(20)}, {raw.NOT_REGISTERED})
        kept = self.used(daemon, "op_bytes")
        self.assertGreater(kept, 20 * 256)
        self.assertEqual({submit(members[1]) for _ in range(20)}, {raw.NOT_REGISTERED})
        # What is remembered of the ops stays as long as the communicator: at most half of the budget.
        self.until(lambda: self.used(daemon, "op_bytes") <= kept // 2)
        for _ in range(200):
            if (result := submit(members[0])) != raw.NOT_REGISTERED:
                break
        self.assertEqual(result, raw.QUOTA)
        client.close()
        self.until(lambda: self.used(daemon, "op_bytes") == 0)

    def test_nothing_stays_charged_when_communicators_have_ended(self):
        """Neither memory that a communicator keeps for its next op, nor what it shows of its plans."""
        daemon = self.daemon()
        ranks = self.start_ranks(daemon, [0, 1], ["allreduce:1000:float32:sum", "gate:done"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.assertGreater(self.used(daemon, "op_bytes"), 0)
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        self.until(lambda: self.used(daemon, "op_bytes") == 0)


class ReplyTest(BudgetTest):
    def ask_without_reading(self, client):
        request = message(_1=1) + raw.field(raw.QUERY, message(_1=2))
        client.socket.settimeout(0.5)
        try:
            for _ in range(20000):
                client.send_bytes(struct.pack("<I", len(request)) + request)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass

    def test_replies_that_are_not_read_are_charged(self):
        daemon = self.daemon()
        client = open_client(self, daemon, want_ring=False)
        self.ask_without_reading(client)
        self.until(lambda: self.used(daemon, "reply_bytes") > 128 << 10)
        self.assertLess(self.used(daemon, "reply_bytes"), MB)
        client.close()
        self.until(lambda: self.used(daemon, "reply_bytes") == 0)

    def test_who_does_not_read_is_dropped_beyond_the_budget(self):
        daemon = self.daemon(*self.limits(reply_bytes_per_tenant="64K"))
        client = open_client(self, daemon, want_ring=False)
        self.ask_without_reading(client)
        daemon.wait_for("its end", lambda blinkd: re.search(
            r"dropped, its replies cannot be kept: .* the limit is 65536, reply_bytes_per_tenant",
            blinkd.stderr()))
        self.until(lambda: self.used(daemon, "reply_bytes") == 0)
        daemon.check_serves()
