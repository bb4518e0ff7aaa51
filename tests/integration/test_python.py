"""The Python package: constants and prototypes as in the headers, the wheel, the examples of docs/python.md,
and every call by real ranks."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import unittest

from harness import IntegrationTest

TOP = pathlib.Path(__file__).parents[2]
PAGE = TOP / "docs" / "python.md"
RANKS = pathlib.Path(__file__).parent / "programs" / "python_ranks.py"
LIBRARY = os.path.join(os.environ["BUILD_DIR"], "lib", "libblinkclient.so.0")
os.environ["BLINK_LIBRARY"] = LIBRARY
sys.path.insert(0, str(TOP / "client" / "python"))
import blink._abi as abi  # noqa: E402


def header(name):
    text = (TOP / name).read_text(encoding="utf-8")
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


TYPES, CALLS = header("proto/blink/types.h"), header("client/include/blink/blink.h")


class AbiTest(unittest.TestCase):
    """What the package says of the library is what the headers say."""

    C = {"int": ctypes.c_int, "size_t": ctypes.c_size_t, "unsigned int": ctypes.c_uint,
         "uint32_t": ctypes.c_uint32, "blink_unique_id_t *": ctypes.POINTER(abi.UniqueId),
         "blink_comm_config_t *": ctypes.POINTER(abi.CommConfig), "int *": abi.INT_OUT,
         "blink_result_t *": abi.INT_OUT, "blink_redop_t *": abi.INT_OUT,
         "size_t *": abi.COUNTS, "char *": ctypes.c_char_p,
         "char **": ctypes.POINTER(ctypes.c_char_p), "void **": abi.HANDLE_OUT, "void": None,
         "blink_algorithm_t": ctypes.c_int, "blink_datatype_t": ctypes.c_int,
         "blink_redop_t": ctypes.c_int, "blink_result_t": ctypes.c_int,
         "void *": ctypes.c_void_p, "blink_stream_t": ctypes.c_void_p}

    def c_type(self, declared):
        """Of "const void *send": handles are opaque, and so is where a handle goes."""
        kind = re.sub(r"\s+", " ", declared.replace("const", "")).strip()
        if not re.fullmatch(r"(unsigned )?\w+( \*+)?", kind):
            kind = re.sub(r"\w+$", "", kind).strip()
        if re.fullmatch(r"blink_(context|comm|op)_t \*\*", kind):
            return abi.HANDLE_OUT
        if re.fullmatch(r"blink_(context|comm|op)_t \*", kind):
            return abi.HANDLE
        return self.C[kind]

    def prototype(self, name):
        """(result, parameters) as the header declares them."""
        result, parameters = re.search(rf"^((?:const )?\w+ \*?){name}\(([^;{{]*)\);", CALLS, re.M).groups()
        declared = [] if parameters.strip() == "void" else [each.strip() for each in parameters.split(",")]
        return self.c_type(result), [self.c_type(re.sub(r"\w+$", "", each)) for each in declared]

    def test_prototypes_are_the_headers(self):
        used = {name: (ctypes.c_int, arguments) for name, arguments in abi.CALLS.items()} | abi.OTHERS
        self.assertGreater(len(used), 40)
        for name, prototype in used.items():
            with self.subTest(name=name):
                self.assertEqual(prototype, self.prototype(name))

    def enumerators(self, prefix, enumeration):
        body = re.search(rf"enum blink_{enumeration} \{{(.*?)\}}", TYPES, re.S)[1]
        return {name.lower(): int(number)
                for name, number in re.findall(rf"\b{prefix}(\w+) =\s*(\d+)", body)}

    def members(self, enumeration):
        return {name.lower(): value.value for name, value in enumeration.__members__.items()}

    def test_constants_are_the_headers(self):
        self.assertEqual(self.members(abi.Result), {"ok": 0} | self.enumerators("BLINK_ERR_", "result"))
        self.assertEqual(self.members(abi.Algorithm), self.enumerators("BLINK_ALGORITHM_", "algorithm"))
        self.assertEqual(self.members(abi.Datatype), self.enumerators("BLINK_", "datatype"))
        redops = self.enumerators("BLINK_", "redop")
        del redops["pre_mul_sum"]  # which is no argument
        self.assertEqual(self.members(abi.Op), redops)
        self.assertEqual(abi.NO_COLOR, int(re.search(r"BLINK_SPLIT_NO_COLOR \((-\d+)\)", CALLS)[1]))

    def test_structs_are_the_headers(self):
        body = re.search(r"struct blink_comm_config \{(.*?)\}", CALLS, re.S)[1]
        fields = [declared.strip() for declared in body.split(";") if declared.strip()]
        names = [re.search(r"\w+$", field)[0] for field in fields]
        self.assertEqual([name for name, _ in abi.CommConfig._fields_], names)
        kinds = [self.c_type(re.sub(r"\w+$", "", field)) for field in fields]
        self.assertEqual([kind for _, kind in abi.CommConfig._fields_], kinds)
        self.assertIn(f"unsigned char bytes[{ctypes.sizeof(abi.UniqueId)}]", CALLS)

    def test_types_have_as_many_bytes_as_they_say(self):
        for datatype in abi.Datatype:
            bits = int(re.match(r"[a-z]+(\d+)", datatype.name)[1])
            self.assertEqual(abi.library.blink_datatype_bytes(datatype) * 8, bits, datatype)

    def test_without_the_library_the_import_says_what_to_do(self):
        for library, text in [("/nonexistent.so", "install blinkd"), ("libc.so.6", "older than this")]:
            done = subprocess.run([sys.executable, "-B", "-c", "import blink"], capture_output=True,
                                  text=True, check=False, cwd=TOP / "client" / "python",
                                  env=os.environ | {"BLINK_LIBRARY": library})
            self.assertEqual(done.returncode, 1)
            self.assertIn("ImportError", done.stderr)
            self.assertIn(text, done.stderr)


def python_with_numpy():
    """An interpreter that has it: the one of the tests, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode == 0:
            return python
    raise AssertionError("no Python here has NumPy: scripts/setup test installs it")


class PythonTest(IntegrationTest):
    def run_ranks_of(self, program, *arguments, ranks=3, python=sys.executable, packages=None,
                     daemon=None, **variables):
        daemon = daemon or self.daemon()
        environment = os.environ | variables | {"BLINK_SOCKET": daemon.socket, "PYTHONDONTWRITEBYTECODE": "1",
                                    "PYTHONPATH": str(packages or TOP / "client" / "python")}
        done = self.run_command([os.environ["BLINKRUN"], "--no-prefix", "-n", ranks, python, program,
                                 *arguments], env=environment)
        self.until(lambda: self.ctl_json(daemon, "status")["registered_bytes"] == 0)
        daemon.check_serves()
        return done

    def play(self, scenario, **options):
        status, out, err = self.run_ranks_of(RANKS, scenario, **options)
        self.assertEqual(status, 0, out + err)

    def test_collectives(self):
        self.play("collectives")

    def test_memory(self):
        self.play("memory")

    def test_a_child_that_was_forked_takes_nothing_from_its_parent(self):
        self.play("forked")

    def test_ops_that_are_waited_for_later(self):
        self.play("pending")

    def test_a_thread_that_waits_holds_up_no_other(self):
        self.play("threads")

    def test_an_interrupted_wait_keeps_the_outcome(self):
        self.play("interrupted")

    def test_use_after_the_context_was_closed(self):
        self.play("closed")

    def test_exit_does_not_wait_for_ops(self):
        self.play("exit")

    def test_failures(self):
        self.play("failures")

    def test_numpy_dlpack_and_cuda_array_interface(self):
        self.play("numpy", python=python_with_numpy())

    @unittest.skipUnless(os.path.exists(os.path.join(os.environ.get("STANDIN", ""), "libcuda.so.1")),
                         "a build without CUDA")
    def test_memory_of_gpus_and_streams(self):
        standin = {"LD_LIBRARY_PATH": os.environ["STANDIN"], "HWLOC_PLUGINS_PATH": "/nonexistent"}
        daemon = self.daemon("--devices", "cuda:0x3", env=os.environ | standin)
        self.play("gpu", daemon=daemon, **standin)

    def test_examples_of_the_page_run_from_the_wheel(self):
        folder = self.directory()
        status, out, err = self.run_command([TOP / "scripts" / "wheel", folder])
        self.assertEqual(status, 0, err)
        packages = os.path.join(folder, "packages")
        status, _, err = self.run_command([sys.executable, "-m", "pip", "install", "--quiet", "--no-index",
                                           "--no-deps", "--target", packages, out.strip()])
        self.assertEqual(status, 0, err)
        examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
        self.assertGreater(len(examples), 1)
        for example in examples:
            python = python_with_numpy() if "numpy" in example else sys.executable
            status, out, err = self.run_ranks_of(self.write_file("example.py", example), ranks=4,
                                                 python=python, packages=packages)
            self.assertEqual(status, 0, f"{example}\n{out}{err}")
            expected = sorted(re.findall(r"# prints: (.*)", example))
            self.assertEqual(sorted(set(out.splitlines())), expected, err)


if __name__ == "__main__":
    unittest.main()
