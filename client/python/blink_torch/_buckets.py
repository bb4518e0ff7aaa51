"""DistributedDataParallel whose buckets of gradients are memory of the daemon."""
from typing import Any, Dict, Optional, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _BucketsInPlace(TorchDispatchMode):
    """While this is entered, vectors of floats that PyTorch's C++ allocates on the CPU are memory of the
    daemon. PyTorch asks no backend in Python for memory, but its dispatcher asks a mode."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Sequence[Any] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        options = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and _is_bucket(args[0], options):
            from . import empty
            return empty(*args[0], dtype=options["dtype"])
        return func(*args, **options)


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
