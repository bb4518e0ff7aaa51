"""Which of the daemon's element types and operators stand for those of torch."""
from contextlib import contextmanager
from typing import Any, Iterator, NamedTuple

import torch
from torch.distributed import ReduceOp

from blink import Communicator, Datatype, ReduceOp as Op

DATATYPES = {torch.int8: Datatype.int8, torch.uint8: Datatype.uint8, torch.int32: Datatype.int32,
             torch.uint32: Datatype.uint32, torch.int64: Datatype.int64, torch.uint64: Datatype.uint64,
             torch.float16: Datatype.float16, torch.float32: Datatype.float32,
             torch.float64: Datatype.float64, torch.bfloat16: Datatype.bfloat16,
             torch.float8_e4m3fn: Datatype.float8_e4m3, torch.float8_e5m2: Datatype.float8_e5m2}

_KIND = type(ReduceOp.SUM)
_OPS = {_KIND.SUM: Op.sum, _KIND.PRODUCT: Op.prod, _KIND.MIN: Op.min, _KIND.MAX: Op.max, _KIND.AVG: Op.avg}
_KNOWN = {*_OPS, _KIND.PREMUL_SUM}
#: Bytes that are 0 or 1. The sum is an "or", as it is in torch and with NCCL.
_OPS_OF_BOOL = {_KIND.SUM: Op.max, _KIND.MAX: Op.max, _KIND.BOR: Op.max, _KIND.PRODUCT: Op.min,
                _KIND.MIN: Op.min, _KIND.BAND: Op.min}
#: What does to the parts of a complex number what it does to the number.
_OF_COMPLEX = (_KIND.SUM, _KIND.AVG, _KIND.PREMUL_SUM)


class Elements(NamedTuple):
    """What is told to C, and the tensor whose memory that is."""
    tensor: torch.Tensor
    address: int
    count: int
    datatype: Datatype


def check(tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        raise TypeError(f"blink has no collectives of sparse tensors ({tensor.layout}): take to_dense(), or "
                        "the backend gloo for these")
    if tensor.device.type != "cpu":
        raise ValueError(f"blink serves tensors on the CPU, and this one is on {tensor.device}: take "
                         'tensor.cpu(), or init_process_group("cpu:blink,cuda:nccl") for both')


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether memory has the elements as they are, in their order."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def flat_view(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a plain tensor in a row, as a type of the daemon that moves them."""
    flat = tensor.detach().view(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).view(-1)
    return flat if flat.dtype in DATATYPES else flat.view(torch.uint8)


def elements_of(flat: torch.Tensor) -> Elements:
    return Elements(flat, flat.data_ptr(), flat.numel(), DATATYPES[flat.dtype])


def elements_in(dtype: torch.dtype) -> int:
    """How many elements of the daemon one of torch is."""
    if dtype in DATATYPES or dtype == torch.bool:
        return 1
    return 2 if dtype.is_complex else dtype.itemsize


def check_reduces(kind: Any, dtype: torch.dtype) -> None:
    """That an operator has a meaning for elements of this type, and is there."""
    known = _OPS_OF_BOOL if dtype == torch.bool else _KNOWN
    if kind in known and dtype.is_complex and kind not in _OF_COMPLEX:
        raise ValueError(f"{kind.name} has no meaning for complex numbers ({dtype})")
    if kind in known and (dtype in DATATYPES or dtype == torch.bool or dtype.is_complex):
        return
    if kind not in known:
        has = ", ".join(each.name for each in sorted(known, key=int))
        raise ValueError(f"blink does not reduce {dtype} by {kind.name}, but by {has}"
                         + (": bitwise operators are there for torch.bool alone"
                            if kind in (_KIND.BAND, _KIND.BOR, _KIND.BXOR) else ""))
    raise TypeError(f"blink does not reduce elements of {dtype}, only moves them: convert them, for instance "
                    "to torch.int32")


@contextmanager
def operator(comm: Communicator, op: Any, dtype: torch.dtype) -> Iterator[int]:
    """The daemon's operator for torch's, with tensors of `dtype`."""
    kind = op.op
    check_reduces(kind, dtype)
    if kind != _KIND.PREMUL_SUM:
        yield (_OPS_OF_BOOL if dtype == torch.bool else _OPS)[kind]
        return
    parts = dtype.to_real() if dtype.is_complex else dtype
    scalar = torch.as_tensor(op.factor).detach().to(parts).reshape(-1)
    if scalar.numel() != 1:
        raise ValueError(f"the factor of PREMUL_SUM is one number, not {scalar.numel()}")
    with comm.weighted_sum(bytes(scalar.view(torch.uint8).tolist()), DATATYPES[parts]) as made:
        yield made
