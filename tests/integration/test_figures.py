"""scripts/figures: its arithmetic on topologies and plans, its Markdown and pictures, and one section from
end to end."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

from figurelib import chart, contest, dgx1, rates, subsets, text, times
from figurelib.blinkctl import Blinkctl, Refused

SVG = "{http://www.w3.org/2000/svg}"


class ArithmeticTest(unittest.TestCase):
    def test_relabelled_links_are_the_same_set_and_others_are_not(self):
        path = subsets.weights(times.chain(4))
        relabelled = subsets.weights(times.v100s("path", 4, [(2, 0), (0, 3), (3, 1)]))
        star = subsets.weights(times.v100s("star", 4, [(0, 1), (0, 2), (0, 3)]))
        self.assertEqual(subsets.canonical(path, range(4)), subsets.canonical(relabelled, range(4)))
        self.assertNotEqual(subsets.canonical(path, range(4)), subsets.canonical(star, range(4)))

    def test_classes_leave_out_what_is_not_connected(self):
        # A path of four has one connected set of 3, up to isomorphism, and none with a GPU missing in
        # between.
        self.assertEqual(subsets.connected_classes(subsets.weights(times.chain(4)), [3]), [(0, 1, 2)])

    def test_ideal_bandwidths_are_the_published_ones(self):
        for host_GBps, published in rates.PUBLISHED_IDEAL.items():
            terms = subsets.ideal_terms(rates.example(host_GBps))
            self.assertEqual(terms, (450.0, host_GBps, 16, 2))
            self.assertAlmostEqual(subsets.ideal_busbw_GBps(*terms), published, places=1)
        self.assertEqual(subsets.ideal_busbw_GBps(450.0, 0.0, 8, 1), 450.0)

    def test_a_fallback_ring_moves_its_bus_bandwidth(self):
        self.assertAlmostEqual(subsets.fallback_GBps("allreduce", 4, 10.0), 10.0 * 4 / 6)
        self.assertAlmostEqual(subsets.fallback_GBps("broadcast", 4, 10.0), 10.0)

    def test_depth_adds_the_deepest_trees_of_both_phases(self):
        edges = [["gpu2", "plx0", "gpu1"], ["gpu1", "gpu0"]]
        reduce = {"phase": "reduce", "root": "gpu0", "edges": [{"path": path} for path in edges]}
        broadcast = {"phase": "broadcast", "root": "gpu0",
                     "edges": [{"path": ["gpu0", "gpu1"]}, {"path": ["gpu0", "gpu2"]}]}
        self.assertEqual(subsets.plan_depth({"trees": [reduce, broadcast, broadcast]}), 3)

    def test_switching_cost_is_what_equation_8_was_given(self):
        # 1 GB, NVLink 100, PCIe 10, 2 ms: NVLink's part ends when PCIe's does after 2 ms.
        over_nvlink = (1e9 + 2e-3 * 10e9) * 100 / 110
        self.assertAlmostEqual(dgx1.switching_us(1e9, 100.0, 110.0, 1e9 / over_nvlink * 100.0), 2000.0)


    def test_the_contest_adds_points_and_keeps_the_worst(self):
        def measured(name, points, faster, ratio):
            worst = {"ratio": ratio, "devices": "1,2,6", "collective": "allreduce", "bytes": 4096, "us": 10.5,
                     "algorithm": "shallow-trees", "baseline": "blink", "baseline_us": 10.0}
            return {"topology": name, "points": points, "faster": faster, "beyond_tie": 0, "choice_ms": 1.25,
                    "worst": worst}

        rows = contest.rows([measured("a", 5, 1, 1.05), measured("b", 7, 0, 0.9)])
        self.assertEqual(rows[0], ["a", 5, 1, 0, "1.050",
                                   "allreduce, 4 KiB, devices 1 2 6: shallow-trees, blink", "1.2"])
        self.assertEqual(rows[2][:5], ["all", 12, 1, 0, "1.050"])


class TextTest(unittest.TestCase):
    def test_tables_are_aligned(self):
        lines = text.table(["set", "GB/s"], [["0123", "26.7"], ["01", "–"]]).splitlines()
        self.assertEqual(lines[1], "| ---- | ---: |")
        self.assertEqual({len(line) for line in lines}, {len(lines[0])})

    def test_wrapping_leaves_tables_headings_and_pictures(self):
        table = text.table(["a" * 70, "b" * 70], [["1", "2"]])
        wrapped = text.wrap(f"# T\n\n\nlong {'word ' * 40}\n\n{table}\n- one\n  item\n- two\n\n![x](y.svg)")
        self.assertIn("\n\n" + table + "\n- one item\n- two\n\n![x](y.svg)\n", wrapped)
        self.assertTrue(wrapped.startswith("# T\n\nlong word"))
        self.assertLessEqual(max(len(line) for line in wrapped.splitlines()
                                 if line.startswith(("long", "word"))), 120)

    def test_sizes_in_both_kinds_of_units(self):
        self.assertEqual([text.size(n) for n in (999, 10_000_000, 15_000_001, 1_000_000_000)],
                         ["999 B", "10 MB", "15 MB", "1 GB"])
        self.assertEqual([text.size(n, 1024) for n in (1024, 1023 << 10, 3 << 29, 1 << 30)],
                         ["1 KiB", "1023 KiB", "1.5 GiB", "1 GiB"])


class ChartTest(unittest.TestCase):
    def test_charts_carry_title_axes_and_every_value(self):
        bars = ElementTree.fromstring(chart.bars("T & U", "GPUs", "GB/s", ["a", "b"],
                                                 {"x": [1.0, 2.0], "y": [0.0, 3.0]},
                                                 mark=("bound", [2.0, 3.0])))
        lines = ElementTree.fromstring(chart.lines("L", "payload", "µs", {"x": [(1000, 2), (10 ** 6, 900)]},
                                                   {1000: "1 kB"}, log_y=True))
        said = {element.text for element in bars.iter(SVG + "text")}
        self.assertLessEqual({"T & U", "GPUs", "GB/s", "a", "b", "x", "y", "bound"}, said)
        # x and y of a, then of b
        heights = [float(bar.get("height")) for bar in bars.findall(SVG + "rect")][-4:]
        self.assertAlmostEqual(heights[2], 2 * heights[0], delta=0.2)
        self.assertAlmostEqual(heights[3], 3 * heights[0], delta=0.3)
        self.assertEqual(heights[1], 0.0)
        self.assertIn("µs", {element.text for element in lines.iter(SVG + "text")})
        self.assertEqual(len(lines.findall(SVG + "circle")), 2)


class BlinkctlTest(unittest.TestCase):
    def setUp(self):
        self.blinkctl = Blinkctl(os.environ["BLINKCTL"])
        self.addCleanup(self.blinkctl.__exit__)

    def test_the_papers_numbers_of_sets_are_found(self):
        for machine, (_, count, _) in dgx1.MACHINES.items():
            classes = subsets.connected_classes(subsets.weights(self.blinkctl.topology(machine)), dgx1.SIZES)
            self.assertEqual(len(classes), count)

    def test_built_ins_are_all_topologies(self):
        names = self.blinkctl.built_ins()
        self.assertIn("dgx1v", names)
        for name in names:
            self.assertEqual(self.blinkctl.topology(name)["name"], name)

    def test_no_ring_is_an_answer_and_nonsense_is_not(self):
        self.assertIsNone(self.blinkctl.rate_GBps("dgx1v", "allreduce", "ring", [1, 4, 5, 6]))
        with self.assertRaises(Refused):
            self.blinkctl.topology("no-such-topology")
        with self.assertRaises(RuntimeError):
            self.blinkctl.run("no-such-command")

    def test_a_section_is_written_with_its_picture(self):
        saved = {}

        def save(name, title, svg):
            saved[name] = svg
            return f"![{title}]({name}.svg)\n"

        section = dgx1.poster(self.blinkctl, save)
        self.assertIn("| 8    | 01234567 |", section)
        ElementTree.fromstring(saved["poster-figure-3"])

    def test_a_page_about_gpus_says_that_it_predicts(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([SCRIPTS / "figures-gpus", "--blinkctl", os.environ["BLINKCTL"],
                            "--out", directory], check=True, stdout=subprocess.DEVNULL)
            page = pathlib.Path(directory, "gpu-predicted.md").read_text(encoding="utf-8")
        self.assertIn("**No GPU has run any of this.**", page)
        self.assertRegex(page, r"\| dgx_a100 +\| +24\.0 \| +\d+ \| +2\d\d \| +230 \|")
        self.assertRegex(page, r"\| 8 +\| +3\d\d \| +468 \| +468 \| +480 \|")


if __name__ == "__main__":
    unittest.main()
