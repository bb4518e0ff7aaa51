"""What blink/types.h and blink/blink.h say, for ctypes. A test compares all of it with the headers."""
import ctypes
import enum
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_void_p


class Result(enum.IntEnum):
    """How a call, or an op, ended."""
    OK = 0
    INVALID_ARGUMENT = 1
    NO_MEMORY = 2
    SYSTEM = 3
    CONNECT = 4
    PROTOCOL = 5
    NOT_REGISTERED = 6
    OUT_OF_RANGE = 7
    MISMATCH = 8
    NOT_FOUND = 9
    EXISTS = 10
    PERMISSION = 11
    QUOTA = 12
    TIMEOUT = 13
    ABORTED = 14
    PEER_LOST = 15
    DAEMON_LOST = 16
    UNSUPPORTED = 17
    UNREACHABLE = 18
    INTERNAL = 19


class Datatype(enum.IntEnum):
    """Element types, named as NumPy and ml_dtypes name them."""
    int8 = 0
    uint8 = 1
    int32 = 2
    uint32 = 3
    int64 = 4
    uint64 = 5
    float16 = 6
    float32 = 7
    float64 = 8
    bfloat16 = 9
    float8_e4m3 = 10
    float8_e5m2 = 11


class Op(enum.IntEnum):
    """Reduction operators."""
    sum = 0
    prod = 1
    max = 2
    min = 3
    avg = 4


class Algorithm(enum.IntEnum):
    """How collectives are planned."""
    auto = 0
    trees = 1
    ring = 2
    double_binary_tree = 3
    blink = 4
    one_hop = 5
    binomial = 6
    recursive_doubling = 7
    shallow_trees = 8
    multicast = 9


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class CommConfig(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t), ("device", c_int), ("algorithm", c_int),
                ("op_timeout_ms", c_uint), ("init_timeout_ms", c_uint), ("name", c_char_p)]


HANDLE = c_void_p
HANDLE_OUT = POINTER(c_void_p)
INT_OUT = POINTER(c_int)
COUNTS = POINTER(c_size_t)

#: Without the last parameter, which is an op's place, or a stream in the form of the same name with _on.
COLLECTIVES = {
    "blink_all_reduce": [c_void_p, c_void_p, c_size_t, c_int, c_int],
    "blink_broadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int],
    "blink_reduce": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int],
    "blink_all_gather": [c_void_p, c_void_p, c_size_t, c_int],
    "blink_reduce_scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int],
    "blink_gather": [c_void_p, c_void_p, c_size_t, c_int, c_int],
    "blink_scatter": [c_void_p, c_void_p, c_size_t, c_int, c_int],
    "blink_all_to_all": [c_void_p, c_void_p, c_size_t, c_int],
    "blink_all_to_all_v": [c_void_p, COUNTS, COUNTS, c_void_p, COUNTS, COUNTS, c_int],
    "blink_all_gather_v": [c_void_p, c_size_t, c_void_p, COUNTS, COUNTS, c_int],
    "blink_reduce_scatter_v": [c_void_p, COUNTS, COUNTS, c_void_p, c_size_t, c_int, c_int],
    "blink_gather_v": [c_void_p, c_size_t, c_void_p, COUNTS, COUNTS, c_int, c_int],
    "blink_scatter_v": [c_void_p, COUNTS, COUNTS, c_void_p, c_size_t, c_int, c_int],
    "blink_send": [c_void_p, c_size_t, c_int, c_int],
    "blink_recv": [c_void_p, c_size_t, c_int, c_int],
    "blink_barrier": [],
}

#: What returns a blink_result_t.
CALLS = {
    "blink_open": [c_char_p, HANDLE_OUT],
    "blink_daemon_version": [HANDLE, POINTER(c_char_p)],
    "blink_device_count": [HANDLE, INT_OUT],
    "blink_mem_alloc": [HANDLE, c_size_t, HANDLE_OUT],
    "blink_mem_free": [HANDLE, c_void_p],
    "blink_get_unique_id": [HANDLE, POINTER(UniqueId)],
    "blink_comm_init_rank": [HANDLE, POINTER(UniqueId), c_int, c_int, POINTER(CommConfig), HANDLE_OUT],
    "blink_launched": [INT_OUT, INT_OUT, INT_OUT],
    "blink_comm_init_launched": [HANDLE, POINTER(CommConfig), HANDLE_OUT],
    "blink_comm_destroy": [HANDLE],
    "blink_comm_split": [HANDLE, c_int, c_int, POINTER(CommConfig), HANDLE_OUT],
    "blink_comm_set_timeout": [HANDLE, c_uint],
    "blink_comm_abort": [HANDLE],
    "blink_comm_revoke": [HANDLE],
    "blink_comm_shrink": [HANDLE, POINTER(CommConfig), HANDLE_OUT],
    "blink_comm_async_error": [HANDLE, INT_OUT],
    "blink_comm_rank": [HANDLE, INT_OUT],
    "blink_comm_size": [HANDLE, INT_OUT],
    "blink_comm_device": [HANDLE, INT_OUT],
    "blink_redop_create_pre_mul_sum": [HANDLE, c_void_p, c_int, INT_OUT],
    "blink_redop_destroy": [HANDLE, c_int],
    "blink_group_start": [],
    "blink_group_end": [HANDLE_OUT],
    "blink_wait": [HANDLE],
    "blink_wait_for": [HANDLE_OUT, c_uint],
    **{name: arguments + [HANDLE, HANDLE_OUT] for name, arguments in COLLECTIVES.items()},
    **{name + "_on": arguments + [HANDLE, c_void_p] for name, arguments in COLLECTIVES.items()},
}

#: What returns something else.
OTHERS = {
    "blink_version": (c_char_p, []),
    "blink_last_error": (c_char_p, []),
    "blink_datatype_bytes": (c_uint32, [c_uint32]),
    "blink_close": (None, [HANDLE]),
}

#: The split of a rank that takes no part.
NO_COLOR = -1


def load() -> ctypes.CDLL:
    """libblinkclient, from BLINK_LIBRARY if that is set."""
    path = os.environ.get("BLINK_LIBRARY") or "libblinkclient.so.0"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"libblinkclient cannot be loaded ({error}): install blinkd, run ldconfig, or set "
                          "BLINK_LIBRARY to the library's path") from error
    prototypes = {name: (c_int, arguments) for name, arguments in CALLS.items()} | OTHERS
    for name, (result, arguments) in prototypes.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{path} lacks {name}(): it is older than this package") from None
        function.restype, function.argtypes = result, arguments
    return library


library = load()
