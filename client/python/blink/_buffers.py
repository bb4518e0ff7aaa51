"""Where an object's elements are: NumPy arrays and all else that has Python's buffer protocol, DLPack or
__cuda_array_interface__. Nothing is copied, so an object that is not contiguous is refused."""
import ctypes
import sys
from math import prod
from typing import Any, NamedTuple, Optional, Sequence

from ._abi import Datatype, library


class Buffer(NamedTuple):
    address: Optional[int]
    elements: int
    datatype: Datatype
    held: Any  # what keeps the memory in its place


NONE = Buffer(None, 0, Datatype.uint8, None)

#: Of ml_dtypes: NumPy does not lend arrays of them as buffers.
_UNLENT = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
#: ml_dtypes' words that are not ours.
_ALIASES = {"float8_e4m3fn": "float8_e4m3"}
_KINDS = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int", "B": "uint", "H": "uint", "I": "uint",
          "L": "uint", "Q": "uint", "e": "float", "f": "float", "d": "float"}


def datatype_of(dtype: Any) -> Datatype:
    """Of a name, a NumPy dtype or a type as numpy.float32."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", "")) or ""
    name = _ALIASES.get(name, name)
    if name not in Datatype.__members__:
        raise TypeError(f"no element type {name or dtype}: there are {', '.join(Datatype.__members__)}; "
                        "convert others, or view their memory as one of these where nothing is added up")
    return Datatype[name]


def element_bytes(datatype: Datatype) -> int:
    return library.blink_datatype_bytes(datatype)


# ---- __array_interface__ and __cuda_array_interface__ ----

def _cuda_interface(value: Any) -> Optional[dict]:
    """None also where it has no word for the elements and DLPack has: PyTorch's bfloat16 is opaque there, and
    its float8 a KeyError."""
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except KeyError:
        interface = None
    is_opaque = interface is not None and interface["typestr"][1] == "V" and hasattr(value, "__dlpack__")
    return None if is_opaque else interface


def _check_writable(value: Any, is_readonly: bool) -> None:
    if is_readonly:
        raise ValueError(f"a result cannot be written to this {type(value).__name__}: it is read-only")


def _from_interface(value: Any, interface: dict, datatype: Datatype, writes: bool) -> Buffer:
    _check_writable(value, writes and interface["data"][1])
    shape, strides = interface["shape"], interface.get("strides")
    _check_contiguous(shape, strides, element_bytes(datatype))
    return Buffer(interface["data"][0] or None, prod(shape), datatype, value)


def _check_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], unit: int) -> None:
    if 0 in shape:
        return
    for extent, stride in reversed(list(zip(shape, strides or ()))):
        if extent != 1 and stride != unit:
            raise ValueError("the memory is not contiguous (in C's order): copy it first")
        unit *= extent


def _of_typestr(typestr: str) -> Datatype:
    if typestr[0] not in ("|", "<" if sys.byteorder == "little" else ">"):
        raise TypeError(f"no element type of typestr {typestr!r}: its bytes are not in this machine's order")
    kinds = {"i": "int", "u": "uint", "f": "float"}
    return datatype_of(f"{kinds.get(typestr[1], typestr)}{8 * int(typestr[2:])}")


# ---- the buffer protocol ----

class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


class _Export:
    """A buffer that its object has lent: it neither moves nor goes until this does."""

    def __init__(self, value: Any) -> None:
        try:
            self.view = memoryview(value)
        except TypeError:
            raise TypeError(f"a {type(value).__name__} has no memory of its own that could be sent or "
                            "written: pass an array of NumPy or of the module array, a tensor, or what "
                            "blink.empty returns") from None
        if not self.view.c_contiguous:
            raise ValueError("the memory is not contiguous (in C's order): copy it first")
        self.lent = _PyBuffer()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(self.view), ctypes.byref(self.lent), 0)

    def __del__(self) -> None:
        if hasattr(self, "lent") and self.lent.buf is not None:
            ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self.lent))


def _from_export(value: Any, writes: bool) -> Buffer:
    export = _Export(value)
    view = export.view
    _check_writable(value, writes and view.readonly)
    letter = view.format.lstrip("@=<")
    if letter not in _KINDS:
        raise TypeError(f"no element type of format {view.format!r}: convert it, or view the memory as "
                        "another type where nothing is added up")
    datatype = datatype_of(f"{_KINDS[letter]}{8 * view.itemsize}")
    return Buffer(export.lent.buf, view.nbytes // view.itemsize, datatype, export)


# ---- DLPack ----

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {(0, 8): "int8", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 32): "uint32",
          (1, 64): "uint64", (2, 16): "float16", (2, 32): "float32", (2, 64): "float64",
          (4, 16): "bfloat16", (10, 8): "float8_e4m3", (12, 8): "float8_e5m2"}


def _from_dlpack(value: Any) -> Buffer:
    device = int(value.__dlpack_device__()[0])
    # -1: who orders the op behind other work on the GPU is the caller, by the stream.
    capsule = value.__dlpack__(stream=-1) if device == _CUDA else value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.device_type not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise TypeError(f"memory of DLPack's device type {tensor.device_type}: only CPU and CUDA are known")
    name = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    datatype = datatype_of(name or f"{tensor.code}:{tensor.bits}x{tensor.lanes} of DLPack")
    shape = tensor.shape[:tensor.ndim]
    _check_contiguous(shape, tensor.strides[:tensor.ndim] if tensor.strides else None, 1)
    address = (tensor.data or 0) + tensor.byte_offset
    return Buffer(address or None, prod(shape), datatype, capsule)


# ---- all ----

def buffer_of(value: Any, writes: bool) -> Buffer:
    """The elements of an object; `writes`: a result goes there."""
    if value is None:
        return NONE
    interface = _cuda_interface(value)
    if interface is not None:
        return _from_interface(value, interface, _of_typestr(interface["typestr"]), writes)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None and getattr(value.dtype, "name", "") in _UNLENT:
        return _from_interface(value, interface, datatype_of(value.dtype), writes)
    try:
        return _from_export(value, writes)
    except TypeError:
        if not hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
            raise
    return _from_dlpack(value)
