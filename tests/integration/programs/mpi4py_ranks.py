"""A rank of a program of mpi4py: arrays, memory of MPI, a derived type, an object."""
import numpy as np
from mpi4py import MPI

COUNT = 1 << 20
comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def check(array, expected):
    assert np.array_equal(array, np.asarray(expected)), "a result is wrong"


own = np.arange(COUNT, dtype=np.float64) * (rank + 1)
total = np.empty_like(own)
comm.Allreduce(own, total)
check(total, np.arange(COUNT) * (size * (size + 1) // 2))
comm.Allreduce(MPI.IN_PLACE, own, op=MPI.MAX)
check(own, np.arange(COUNT) * size)

memory = MPI.Alloc_mem(COUNT)
shared = np.frombuffer(memory, dtype=np.int32)
shared[:] = rank + 7
comm.Bcast(shared, root=1)
check(shared, np.full(COUNT // 4, 8))
del shared
MPI.Free_mem(memory)

everything = np.empty((size, COUNT))
comm.Allgather(total + rank, everything)
check(everything[1], total + 1)

columns = MPI.DOUBLE.Create_vector(COUNT // 2, 1, 2).Commit()
comm.Bcast([total, 1, columns], root=0)
columns.Free()
assert comm.bcast({"rank": rank, "text": "x" * 100}, root=0)["rank"] == 0
comm.Barrier()
