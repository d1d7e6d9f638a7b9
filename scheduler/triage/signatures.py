"""The table: what programs, libraries and kernels say when something fails.

Written from knowledge of these programs' messages. A signature matches a line that holds *all*
words of *one* of its alternatives, small letters, by plain search: linear, whatever the line.
`rank`: the lower one is nearer to the root; a failing card makes NCCL complain, not the other way
round, and one rank's exception makes its peers lose their connections.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.states import FailureClass

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """`source` says in words who prints it; `advice` is the sentence with what to do."""

    name: str
    failure: FailureClass
    rank: int
    source: str
    advice: str
    any_of: tuple[Words, ...]


_GPU, _NODE = FailureClass.INFRA_GPU, FailureClass.INFRA_NODE
_NET, _DISK = FailureClass.INFRA_NETWORK, FailureClass.INFRA_STORAGE
_CODE, _ROOM = FailureClass.USER_CODE, FailureClass.USER_RESOURCE
_SETUP, _HANG = FailureClass.USER_CONFIG, FailureClass.HANG

HARDWARE: tuple[Signature, ...] = (
    Signature(
        "gpu_ecc",
        _GPU,
        10,
        "CUDA and the kernel, on memory errors of a card",
        "A card reports memory errors. Tell the operator which node it was, and run the job again.",
        (
            ("uncorrectable ecc",),
            ("double bit ecc",),
            ("double-bit ecc",),
            ("cudaerroreccuncorrectable",),
            ("row remap", "fail"),
            ("contained ecc",),
        ),
    ),
    Signature(
        "gpu_lost",
        _GPU,
        10,
        "NVML, nvidia-smi and the kernel, when a card stops answering",
        "A card no longer answers. Tell the operator which node it was, and run the job again.",
        (
            ("gpu is lost",),
            ("fallen off the bus",),
            ("fell off the bus",),
            ("unable to determine the device handle",),
            ("cuda error: unknown error",),
            ("cudaerrordevicesunavailable",),
            ("cuda-capable device(s) is/are busy or unavailable",),
            ("hardware stack error",),
            ("cudaerrorhardwarestackerror",),
            ("gpu requires reset",),
        ),
    ),
    Signature(
        "gpu_xid",
        _GPU,
        11,
        "the NVIDIA kernel driver: Xid numbers that mean hardware (48, 62, 63, 64, 74, 79, 94, 95)",
        "The driver logged a hardware error of a card. Tell the operator.",
        tuple(
            ("xid", form)
            for number in (48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140)
            for form in (f"): {number},", f"xid {number} ", f"xid {number}:", f"xid {number},")
        ),
    ),
    Signature(
        "nvlink_error",
        _GPU,
        12,
        "CUDA and NVML, on the links between cards",
        "A link between cards failed. Tell the operator which node it was, and run the job again.",
        (
            ("nvlink", "uncorrectable"),
            ("nvlink", "fatal"),
            ("cudaerrornvlinkuncorrectable",),
            ("nvswitch", "fatal"),
            ("system not yet initialized", "fabric"),
            ("system not yet initialized",),
            ("cudaerrorsystemnotready",),
            ("fabric manager", "not running"),
        ),
    ),
    Signature(
        "machine_error",
        _NODE,
        13,
        "the kernel, on errors of processor and main memory",
        "The machine itself reports errors. Tell the operator which node it was, and run the job "
        "again.",
        (
            ("machine check exception",),
            ("machine check events",),
            ("mce:", "hardware error"),
            ("soft lockup",),
            ("hard lockup",),
            ("kernel panic",),
            ("edac", " ue "),
            ("unable to handle kernel",),
            ("node is shutting down",),
            ("system is going down",),
            ("memory failure:", "hardware"),
            ("hardware memory error",),
        ),
    ),
)

RESOURCES: tuple[Signature, ...] = (
    Signature(
        "cuda_out_of_memory",
        _ROOM,
        20,
        "PyTorch, CUDA, JAX and TensorFlow allocators",
        "The card's memory did not suffice. Use a smaller batch, shorter sequences, gradient "
        "checkpointing or sharding, or ask for cards with more memory.",
        (
            ("cuda out of memory",),
            ("torch.", "outofmemoryerror"),
            ("cuda", "outofmemoryerror"),
            ("cudaerrormemoryallocation",),
            ("cuda_error_out_of_memory",),
            ("cuda error: out of memory",),
            ("resource_exhausted", "memory"),
            ("oom when allocating tensor",),
            ("cublas_status_alloc_failed",),
            ("cuda failure", "out of memory"),
            ("no available memory for the cache blocks",),
            ("larger than the available kv cache memory",),
            ("hip out of memory",),
            ("bfc_allocator", "ran out of memory"),
        ),
    ),
    Signature(
        "host_out_of_memory",
        _ROOM,
        21,
        "Python, numpy, C++ and the kernel, on main memory",
        "Main memory did not suffice. Ask for more memory, load less at a time, or use fewer "
        "loader workers.",
        (
            ("memoryerror",),
            ("std::bad_alloc",),
            ("cannot allocate memory",),
            ("oom-kill",),
            ("oom kill",),
            ("out of memory: killed process",),
            ("unable to allocate", "for an array"),
            ("defaultcpuallocator", "allocate memory"),
            ("is killed by signal: killed",),
            ("subprocesses has abruptly died",),
            ("killed process", "anon-rss"),
            ("terminatedworkererror",),
            ("worker process", "unexpectedly terminated"),
        ),
    ),
    Signature(
        "shared_memory_full",
        _ROOM,
        21,
        "PyTorch's data loader, when /dev/shm is full",
        "Shared memory ran out. Use fewer loader workers or the file_system sharing strategy.",
        (
            ("insufficient shared memory",),
            ("out of shared memory",),
            ("is killed by signal: bus error",),
            ("unable to write to file </torch_",),
            ("no space left on device", "/shm/"),
        ),
    ),
    Signature(
        "disk_full",
        _ROOM,
        22,
        "the kernel through every program, on a full disk or a used-up quota",
        "A disk is full or a quota is used up. Delete old checkpoints, keep fewer of them, or "
        "write elsewhere.",
        (
            ("no space left on device",),
            ("disk quota exceeded",),
            ("errno 28",),
            ("errno 122",),
            ("enospc",),
            ("pytorchstreamwriter failed",),
        ),
    ),
    Signature(
        "too_many_files",
        _ROOM,
        23,
        "the kernel, on limits of a process",
        "A limit of open files or threads was reached. Close files, or use fewer workers.",
        (
            ("too many open files",),
            ("errno 24",),
            ("can't start new thread",),
            ("resource temporarily unavailable", "fork"),
            ("received 0 items of ancdata",),
        ),
    ),
)

PLACES: tuple[Signature, ...] = (
    Signature(
        "storage_error",
        _DISK,
        30,
        "the kernel, on file systems that fail below the program",
        "A file system failed below the program. Tell the operator which path it was; run the job "
        "again when it is mended.",
        (
            ("stale file handle",),
            ("errno 116",),
            ("input/output error",),
            ("errno 5]",),
            ("transport endpoint is not connected",),
            ("errno 107",),
            ("read-only file system",),
            ("errno 30]",),
            ("remote i/o error",),
            ("ext4-fs error",),
            ("xfs", "corruption"),
            ("buffer i/o error",),
            ("nfs: server", "not responding"),
            ("the file system of ", "did not answer within"),
            ("cannot send after transport endpoint shutdown",),
            ("structure needs cleaning",),
            ("mount.nfs:",),
            ("lustreerror",),
            ("i/o error, dev",),
            ("medium error",),
            ("(slowdown)",),
            ("reduce your request rate",),
            ("(serviceunavailable)",),
            ("(internalerror) when calling",),
            ("503 service unavailable",),
        ),
    ),
    Signature(
        "link_error",
        _NET,
        32,
        "NCCL's InfiniBand and RoCE transport, and the kernel, on a link or port",
        "A network link failed. Run the job again, and tell the operator the nodes.",
        (
            ("ibv_wc_retry_exc_err",),
            ("transport retry counter exceeded",),
            ("ibv_poll_cq",),
            ("got completion", "error 12"),
            ("got completion with error",),
            ("got completion from peer", "error"),
            ("port error", "nccl"),
            ("got async event", "port"),
            ("link is down",),
            ("link down", "mlx5"),
            ("ibv_modify_qp failed",),
            ("ibv_wc_",),
            ("vendor err 129",),
        ),
    ),
    Signature(
        "network_unreachable",
        _NET,
        33,
        "name resolution and the kernel's routes, through any program",
        "A name or an address could not be reached from the node. Run it again; if it stays so, "
        "the address may be wrong or closed from there.",
        (
            ("temporary failure in name resolution",),
            ("could not resolve host",),
            ("name or service not known",),
            ("failed to resolve",),
            ("network is unreachable",),
            ("no route to host",),
            ("nameresolutionerror",),
            ("errno 101",),
            ("errno 113",),
            ("failed to establish a new connection",),
            ("lost communication with a remote daemon",),
            ("ucx", "endpoint timeout"),
        ),
    ),
)
