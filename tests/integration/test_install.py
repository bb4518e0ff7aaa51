"""What a user meets: an installed library that exports only its own names, the example of docs/program.md,
manual pages and completion that say what the programs say, and an installation that goes away again."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import LIMIT_S, IntegrationTest

TOP = pathlib.Path(__file__).parents[2]
PAGE = TOP / "docs" / "program.md"
HEADER = TOP / "client" / "include" / "blink" / "blink.h"
EXAMPLES = """
#include <blink/blink.h>
#include <stdio.h>
#include <stdlib.h>
{check}
static blink_stream_t stream;
static void cudaStreamSynchronize(blink_stream_t waited)
{{
    (void)waited;
}}

int main(void)
{{
    int rank = 0, rank_count = 1;
    {code}
    blink_close(context);
    return 0;
}}
"""
COMPLETE = """
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
source "$1"
_blink "$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""


class InstallTest(IntegrationTest):
    def install(self):
        """The build installed under a temporary prefix."""
        prefix = os.path.join(self.directory(), "prefix")
        status, _, err = self.run_command(
            [os.environ["CMAKE"], "--install", os.environ["BUILD_DIR"], "--prefix", prefix]
        )
        self.assertEqual(status, 0, err)
        return pathlib.Path(prefix)

    def functions(self):
        return re.findall(r"^ +(blink_\w+);", (TOP / "client/lib/blinkclient.map").read_text(), re.M)

    def test_only_public_names_are_exported(self):
        library = next((self.install()).rglob("libblinkclient.so"))
        _, out, _ = self.run_command(["nm", "-D", "--defined-only", str(library)])
        names = {line.split()[-1] for line in out.splitlines()} - {"BLINK_0.1"}
        self.assertIn("blink_all_reduce@@BLINK_0.1", names)
        self.assertEqual([name for name in names if not re.fullmatch(r"blink_\w+@@BLINK_0\.1", name)], [])

    def test_package_of_the_library_lists_its_names(self):
        exported = self.functions()
        listed = re.findall(r"^ (blink_\w+)@", (TOP / "debian/libblinkclient0.symbols").read_text(), re.M)
        self.assertEqual(sorted(listed), sorted(exported))

    def test_what_building_needs_is_what_the_packages_say(self):
        lists = re.search(r'^build_packages="(.*?)"', (TOP / "scripts/setup").read_text(), re.M | re.S)[1]
        wanted = {name for name in lists.split() if name.endswith("-dev")} - {"libc6-dev"}
        control = (TOP / "debian/control").read_text().split("\n\n", maxsplit=1)[0]
        self.assertEqual(wanted - set(re.findall(r"[\w.+-]+", control)), set())

    def test_every_installed_file_is_in_a_package(self):
        prefix = self.install()
        lines = [line.split() for pattern in ("*.install", "not-installed")
                 for path in (TOP / "debian").glob(pattern) for line in path.read_text().splitlines()]
        listed = [words[0].replace("usr/lib/*/", "usr/lib/") for words in lines if words]
        self.assertIn("usr/bin/blinkd", listed)
        for file in (path for path in prefix.rglob("*") if not path.is_dir()):
            parts = pathlib.PurePath("usr", file.relative_to(prefix)).parts
            within = [pathlib.PurePath(*parts[:length]) for length in range(1, len(parts) + 1)]
            packed = any(path.match(pattern) for path in within for pattern in listed)
            self.assertTrue(packed, f"{within[-1]} is in no package: name it in debian/")

    def build_and_run(self, text):
        """What a program in C prints, with the installed library and a daemon."""
        prefix = self.install()
        source = self.write_file("example.c", text)
        program = source.removesuffix(".c")
        packages = next(prefix.rglob("blinkclient.pc")).parent
        environment = dict(os.environ, PKG_CONFIG_PATH=str(packages))
        flags = subprocess.check_output(
            ["pkg-config", "--cflags", "--libs", "blinkclient"], env=environment, text=True,
        ).split()
        sanitize = [f"-fsanitize={os.environ['SANITIZE']}"] if os.environ.get("SANITIZE") else []
        command = ["cc", "-Wall", "-Werror", source, *flags, *sanitize, "-o", program]
        status, _, err = self.run_command(command)
        self.assertEqual(status, 0, err)
        daemon = self.daemon()
        libraries = str(next(prefix.rglob("libblinkclient.so")).parent)
        done = subprocess.run(
            [program], env=dict(os.environ, BLINK_SOCKET=daemon.socket, LD_LIBRARY_PATH=libraries),
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_example_of_the_page_builds_as_shown_and_runs(self):
        out = self.build_and_run(re.search(r"```c\n(.*?)```", PAGE.read_text(), re.S)[1])
        self.assertEqual(sorted(out.splitlines()), [f"rank {rank}: 6" for rank in range(4)])

    def test_examples_of_the_header(self):
        """Each part has one; they build one after the other, and run on a rank that is alone."""
        body = {}
        for part in re.split(r"^/\* ---- ", HEADER.read_text(), flags=re.M)[1:]:
            name = part.split(" ----", maxsplit=1)[0]
            blocks = re.findall(r"^ \*\n((?: \*     .*\n)+)", part, re.M)
            code = [re.sub(r"^ \*     ", "", block, flags=re.M) for block in blocks]
            self.assertTrue(code, f"no example of {name}")
            body[name] = code
        survivors = body["communicators"].pop()
        body["communicators"].insert(0, "blink_unique_id_t id;\nCHECK(blink_get_unique_id(context, &id));\n")
        body["reductions"], body["collectives"] = body["collectives"], body["reductions"]
        body["streams"] = ["if (stream) {\n", *body["streams"], "}\n"]
        check = re.search(r"#define CHECK.*?while \(0\)\n", PAGE.read_text(), re.S)[0]
        code = "".join("".join(blocks) for blocks in body.values())
        self.build_and_run(EXAMPLES.format(check=check, code=code + survivors))

    def help_of(self, *command):
        unbroken = dict(os.environ, ARGP_HELP_FMT="rmargin=9999")
        status, out, err = self.run_command([*map(str, command), "--help"], env=unbroken)
        self.assertEqual(status, 0, err)
        return out

    def test_manual_pages_have_every_program_command_option_and_setting(self):
        if not shutil.which("scdoc"):
            self.skipTest("there is no scdoc, and so no manual pages")
        prefix = self.install()
        pages = {path.stem: re.sub(r"\\(?:&|f[BIR])?", "", path.read_text())
                 for path in (prefix / "share/man").rglob("*.?")}
        pages["blink"] = pages["blink"].replace("\\", "")
        names = sorted(program.name for program in (prefix / "bin").iterdir())
        self.assertIn("blinkd", names)
        for program in (pathlib.Path(os.environ["BLINKD"]).with_name(name) for name in names):
            commands = re.findall(r"^  ([a-z]+)  .*", self.help_of(program).partition("\nCommands ")[2], re.M)
            for words in [[], *([command] for command in commands)]:
                for option in re.findall(r"^ +(?:-., )?(--[a-z_-]+)", self.help_of(program, *words), re.M):
                    found = re.search(rf"^(-., )?{option}\b", pages[program.name], re.M)
                    self.assertTrue(found, [program.name, *words, option])
                self.assertIn(" ".join([program.name, *words]), pages[program.name])
        settings = re.findall(r"^# ([a-z_]+) =", (TOP / "systemd" / "blinkd.conf").read_text(), re.M)
        self.assertIn("op_timeout_s", settings)
        for setting in settings:
            self.assertRegex(pages["blinkd.conf"], rf"(?m)^{setting} =")

        for function in self.functions():
            self.assertRegex(pages["blink"], rf"\b{function}\(", "blink(3) lacks a function")
            self.assertEqual(pages[function], ".so man3/blink.3\n")

    @unittest.skipUnless(shutil.which("scdoc") and shutil.which("groff"), "needs scdoc and groff")
    def test_manual_pages_have_only_what_a_terminal_without_utf8_can_show(self):
        pages = [page for page in (self.install() / "share/man").rglob("*.?")
                 if not page.read_text().startswith(".so ")]
        self.assertIn("blink.3", [page.name for page in pages])
        for page in pages:
            shown = ["groff", "-k", "-t", "-man", "-mtty-char", "-Tascii", str(page)]
            status, _, err = self.run_command(shown)
            self.assertEqual((status, err), (0, ""), page.name)

    def complete(self, *words):
        """What bash offers for the last word."""
        completion = TOP / "scripts" / "completion" / "blink.bash"
        path = dict(os.environ, PATH=os.path.dirname(os.environ["BLINKCTL"]) + ":" + os.environ["PATH"])
        command = ["bash", "-c", COMPLETE, "-", str(completion), *words]
        status, out, err = self.run_command(command, env=path)
        self.assertEqual((status, err), (0, ""))
        return out.split()

    def test_completion_offers_what_programs_take(self):
        self.assertIn("simulate", self.complete("blinkctl", ""))
        self.assertEqual(self.complete("blinkctl", "--json", "pl"), ["plan"])
        self.assertEqual(self.complete("blinkctl", "plan", "--alg"), ["--algorithm"])
        self.assertIn("dgx1v_hybrid", self.complete("blinkctl", "plan", "-t", "dgx1v"))
        self.assertIn("dgx1v_hybrid", self.complete("blinkd", "--topology", "=", "dgx1v"))
        self.assertEqual(self.complete("blinkd", "--check"), ["--check-config"])
        for words in [("blinkd", "--log-level"), ("blinkd", "--gpu-sharing"), ("blinkctl", "topology", "-f"),
                      ("blinkctl", "plan", "-a"), ("blinkctl", "plan", "--collective"),
                      ("blinkctl", "simulate", "--protocol"), ("blink-perf", "-d"), ("blink-perf", "-o"),
                      ("blink-perf", "--in-place"), ("blink-perf", "--memory"),
                      ("blink-perf", "--device-memory"), ("blink-perf",)]:
            program = pathlib.Path(os.environ["BLINKCTL"]).with_name(words[0])
            option = re.escape(words[-1])
            said = self.help_of(program, *words[1:-1])
            if len(words) > 1:
                said = re.search(rf"^ +{option}\b.*|^ +-., {option}\b.*", said, re.M)[0]
            offered = self.complete(*words, "")
            self.assertTrue(offered, words)
            for word in offered:
                self.assertRegex(said, rf"\b{word}\b", words)

    def test_uninstalling_leaves_none_of_its_files(self):
        prefix = self.install()
        script = str(TOP / "cmake" / "uninstall.cmake")
        uninstall = [os.environ["CMAKE"], f"-DBUILD={os.environ['BUILD_DIR']}", "-P", script]
        status, _, err = self.run_command(uninstall)
        self.assertEqual(status, 0, err)
        left = [path for path in prefix.rglob("*") if not path.is_dir() or "blink" in path.name]
        self.assertEqual(left, [])
        status, _, err = self.run_command(uninstall)
        self.assertEqual(status, 1)
        self.assertIn("can be taken away", err)


if __name__ == "__main__":
    unittest.main()
