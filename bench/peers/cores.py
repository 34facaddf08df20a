"""The cores and the libraries of a program that is compared with ours, so that both have the same."""
import os


def kernels_of(flags):
    """OpenBLAS's name of its kernels for a CPU with these flags of /proc/cpuinfo, or None: OpenBLAS chooses.

    OpenBLAS knows CPUs by their model and takes its oldest kernels on a CPU that is newer than itself: 0.3.21 computes at a
    fifth of the speed on Intel's Emerald Rapids. engine/math/gemm.cc chooses for ours in the same way."""
    if {"avx512bw", "avx512dq", "avx512vl"} <= flags:
        return "SkylakeX"
    return "Haswell" if {"avx2", "fma"} <= flags else None


def use_cores(cores, threads):
    """This program, and those that it starts, share the first so many cores; the libraries of each start so many threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    use_threads(threads)


def use_threads(threads):
    # OpenMP's threads otherwise spin on the cores that OpenBLAS's need: PyTorch on two cores then has a third of its speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.update(dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"], str(threads)))
    with open("/proc/cpuinfo") as file:
        flags = next((set(line.split(":")[1].split()) for line in file if line.startswith("flags")), set())
    kernels = kernels_of(flags)
    if kernels:
        os.environ.setdefault("OPENBLAS_CORETYPE", kernels)
