"""The backend "blink" of torch.distributed: collectives of CPU tensors through this host's blinkd daemon.

    torch.distributed.init_process_group("blink")

PyTorch finds this package by its entry point, so that no program imports it. docs/torch.md of blinkd says
more.
"""
import importlib
import warnings
import weakref
from typing import Any

import torch
import torch.distributed as dist

#: Of PyTorch: the first and the last minor version that this package was tried with.
OLDEST, NEWEST = (2, 14), (2, 15)

__all__ = ["DistributedDataParallel", "Options", "empty", "reform", "register"]

#: What loads libblinkclient, which register() must not before it has looked at the version.
_LOADED_LATER = {"DistributedDataParallel": "_buckets", "Options": "_backend", "reform": "_reform"}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f".{_LOADED_LATER[name]}", __name__), name)


def _text(version: Any) -> str:
    return ".".join(map(str, version))


def _check_version() -> None:
    version = tuple(map(int, torch.__version__.split("+")[0].split(".")[:2]))
    if version < OLDEST:
        raise ImportError(f"blink_torch needs PyTorch {_text(OLDEST)} or later, in which process groups take "
                          f"backends that are written in Python; this is {torch.__version__}")
    if version > NEWEST:
        warnings.warn(f"PyTorch {torch.__version__} is newer than what blink_torch was tried with, which is "
                      f"{_text(OLDEST)} to {_text(NEWEST)}: look for a newer blinkd", stacklevel=3)


def register() -> None:
    """Make the backend known to torch.distributed, which calls this by the entry point."""
    _check_version()
    if not dist.is_available():
        raise ImportError("this PyTorch was built without torch.distributed")
    from ._backend import create
    dist.Backend.register_backend("blink", create, extended_api=True, devices=["cpu"])


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A tensor of zeros in memory that the daemon reads and writes in place. It needs no process group."""
    from . import _context
    count = torch.Size(shape).numel()
    context = _context.acquire()
    try:
        memory = context.empty(max(count * dtype.itemsize, 1), "uint8")
    except BaseException:
        _context.release(context)
        raise
    # Groups that begin while the tensor lives must use its connection. At exit the connection ends anyway.
    weakref.finalize(memory, _context.release, context).atexit = False
    return torch.frombuffer(memory, dtype=dtype, count=count).reshape(shape)
