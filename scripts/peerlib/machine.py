"""What a reader has to know of the machine and of the programs to judge the numbers."""
import os
import pathlib
import platform
import subprocess

HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage")


def first_line(*command):
    """Of what a program prints; empty where there is no such program."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return ""
    return (done.stdout.strip().splitlines() or [""])[0].strip()


def line_of(path, key):
    """What follows `key`, a separator and blanks in a file of the system; empty where there is none."""
    try:
        with open(path, encoding="utf-8") as lines:
            found = next((line for line in lines if line.startswith(key)), "")
    except OSError:
        return ""
    return found.removeprefix(key).strip().lstrip("=:").strip().strip('"')


def chosen(name):
    """The word in brackets of a setting of transparent huge pages."""
    try:
        words = (HUGE_PAGES / name).read_text(encoding="utf-8").split()
    except OSError:
        return "unknown"
    return next((word.strip("[]") for word in words if word.startswith("[")), "unknown")


def shared_memory_gets_huge_pages():
    """Whether memory such as blinkd's, a memfd with a wish for huge pages, is granted any."""
    return chosen("shmem_enabled") in ("always", "within_size", "advise", "force")


def version_of_package(name):
    return first_line("dpkg-query", "-W", "-f", "${Version}", name)


def machine():
    memory_GiB = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    processor = line_of("/proc/cpuinfo", "model name") or platform.machine()
    system = line_of("/etc/os-release", "PRETTY_NAME") or platform.system()
    return f"{processor}, {len(os.sched_getaffinity(0))} cores, {memory_GiB:.0f} GiB, {system}"


def facts():
    return [
        f"Machine: {machine()}, Linux {platform.release()}.",
        f"Transparent huge pages: {chosen('enabled')} for ordinary memory, {chosen('shmem_enabled')} for "
        f"shared memory.",
    ]
