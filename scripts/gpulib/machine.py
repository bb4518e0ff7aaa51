"""The GPU, its driver and its tools, as found on this machine."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess

CONTAINER_DRIVER = pathlib.Path("/usr/local/nvidia")  # where container runtimes put the driver's files
STAND_IN = "stand-in"  # in the name of every device of the driver that tests bring along
NAME_BYTES = 256


def find_driver():
    """The name or path of libcuda, or None."""
    for name in ["libcuda.so.1", *(str(CONTAINER_DRIVER / place / "libcuda.so.1")
                                   for place in ("lib64", "lib"))]:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
            return name
    return None


def find_tool(name, *directories):
    """Its path: on PATH, in these directories, or in the driver's; None if there is none."""
    places = [*directories, CONTAINER_DRIVER / "bin", "/usr/local/cuda/bin", "/usr/bin"]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(str(place) for place in places))


def gpu_names(driver):
    """What a driver calls its GPUs; empty if it has none. This process uses CUDA from then on."""
    cuda = ctypes.CDLL(driver)
    count = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    names = []
    for device in range(count.value):
        name = ctypes.create_string_buffer(NAME_BYTES)
        if cuda.cuDeviceGetName(name, NAME_BYTES, device) != 0:
            return []
        names.append(name.value.decode(errors="replace"))
    return names


def environment_of(driver):
    """This process's, with a driver that the loader would not find by itself."""
    directory = os.path.dirname(driver)
    if not directory:
        return dict(os.environ)
    known = os.environ.get("LD_LIBRARY_PATH")
    return os.environ | {"LD_LIBRARY_PATH": f"{directory}:{known}" if known else directory}


def driver_version():
    """GPU, driver and compute mode by nvidia-smi, or what the kernel says of the driver."""
    smi = find_tool("nvidia-smi")
    if smi:
        asked = subprocess.run([smi, "--query-gpu=name,driver_version,compute_mode", "--format=csv,noheader"],
                               capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return "; ".join(asked.stdout.strip().splitlines())
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").splitlines()[0]
    return "unknown"
