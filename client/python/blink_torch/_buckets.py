"""DistributedDataParallel whose buckets of gradients are memory of the daemon."""
import warnings
from typing import Any, Dict, Optional, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import blink

from . import empty

#: How the daemon, or the system, says that it has no more memory.
_REFUSALS = (blink.Result.QUOTA, blink.Result.NO_MEMORY, blink.Result.SYSTEM)


class _BucketsInPlace(TorchDispatchMode):
    """While this is entered, vectors of floats that PyTorch's C++ allocates on the CPU are memory of the
    daemon, as far as there is some. PyTorch asks no backend in Python for memory, but its dispatcher asks a
    mode."""
    _has_warned = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        options = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and _is_bucket(args[0], options):
            try:
                return empty(*args[0], dtype=options["dtype"])
            except blink.Error as error:
                if error.code not in _REFUSALS:
                    raise
                self._warn(error)
        return func(*args, **options)

    @classmethod
    def _warn(cls, error: blink.Error) -> None:
        """Once in a process."""
        if not cls._has_warned:
            cls._has_warned = True
            warnings.warn("buckets of gradients are ordinary memory, which is copied on the way to the "
                          f"daemon, since the daemon gives no more of its own: {error}", stacklevel=2)


def _is_bucket(size: Sequence[int], options: Dict[str, Any]) -> bool:
    dtype, device = options.get("dtype"), options.get("device")
    return (len(size) == 1 and dtype is not None and dtype.is_floating_point
            and device is not None and device.type == "cpu")


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """PyTorch's, with the same arguments. The daemon reads and writes the buckets where they lie."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        with _BucketsInPlace():
            super().__init__(*arguments, **options)

    def _pre_forward(self, *inputs: Any, **options: Any) -> Any:
        """In which PyTorch makes the buckets anew, once, in the order in which gradients came."""
        if getattr(self, "_has_rebuilt_buckets", True):
            return super()._pre_forward(*inputs, **options)
        with _BucketsInPlace():
            return super()._pre_forward(*inputs, **options)
