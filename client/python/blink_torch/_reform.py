"""The default process group, made anew of the ranks that are left."""
import contextlib
import os
import socket
from datetime import timedelta
from typing import Any, Optional, Tuple

import torch
import torch.distributed as dist

import blink

from ._backend import BlinkBackend, Options
from ._errors import translated

#: Of an address, which all ranks are told.
ADDRESS_BYTES = 512


def _network() -> str:
    """Which host this is, as localhost is understood: ranks of one have the same text."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
        return f"{boot.read().strip()}/{os.stat('/proc/self/ns/net').st_ino}"


def _own_address(store: dist.Store) -> str:
    """Of this host, for the others: from where it reaches the store in which the ranks have met, whether that
    still lives or not. Its name, if that was not over the network."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if isinstance(store, dist.TCPStore):
        for family, kind, _, _, place in socket.getaddrinfo(store.host, store.port, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                probe.connect(place)  # which sends nothing
                return probe.getsockname()[0]
    return socket.getfqdn()


def _open_store(comm: blink.Communicator, last: dist.Store, limit: timedelta) -> dist.Store:
    """Of rank 0; the others are told where it is by way of the daemon."""
    store, told = None, bytearray(ADDRESS_BYTES)
    if comm.rank == 0:
        own = _own_address(last)
        store = dist.TCPStore(own, 0, is_master=True, wait_for_workers=False, timeout=limit)
        address = f"{store.port} {_network()} {own}".encode()[:ADDRESS_BYTES]
        told[:len(address)] = address
    comm.broadcast(told)
    if store is None:
        port, network, name = told.rstrip(b"\0").decode().split(" ")
        store = dist.TCPStore("localhost" if network == _network() else name, int(port), is_master=False,
                              wait_for_workers=False, timeout=limit)
    comm.barrier()  # all are connected, so that no failure of one is the others' wait
    return store


def _shrink(backend: BlinkBackend, limit: timedelta) -> Tuple[dist.Store, int, int]:
    """The store of those that are left; this one's rank, and how many they are."""
    with translated(f"rank {backend.rank()} cannot form a group with the ranks that are left"):
        backend.comm.abort()  # for those which have heard of no failure
        with backend.comm.shrink() as comm:
            return _open_store(comm, backend.store, limit), comm.rank, comm.size


def _chosen(options: Options, limit: timedelta) -> Optional[Options]:
    """What the program has chosen; None if nothing, for NCCL in the same group refuses options of blink."""
    if options.algorithm == "auto" and options.device is None:
        return None
    return Options(options.algorithm, options.device, limit)


def reform() -> None:
    """Make the default process group anew of the ranks that are left when others were lost.

    All that are left call this, once each, when a collective has raised an error. Their ranks are numbered
    anew from 0, in the order that they had. All process groups from before are destroyed. Waits until all
    have called, no longer than the time-out of the group for each rank that goes meanwhile."""
    group: Any = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, BlinkBackend):
        raise ValueError(f"the default process group has {dist.get_backend_config()}, not blink for tensors "
                         "on the CPU, and only blink says which ranks are left")
    limit = timedelta(seconds=backend.limit_s)
    config, options = dist.get_backend_config(), _chosen(backend.options, limit)
    store, rank, size = _shrink(backend, limit)
    dist.destroy_process_group()
    dist.init_process_group(config, store=store, rank=rank, world_size=size, timeout=limit,
                            pg_options=options)
