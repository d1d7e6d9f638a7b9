"""The second half of the table: set-up, the program's own errors, and what follows from others."""

from __future__ import annotations

from scheduler.states import FailureClass
from scheduler.triage.signatures import HARDWARE, PLACES, RESOURCES, Signature

_CODE, _SETUP = FailureClass.USER_CODE, FailureClass.USER_CONFIG
_NET, _HANG = FailureClass.INFRA_NETWORK, FailureClass.HANG

SETUP: tuple[Signature, ...] = (
    Signature(
        "module_missing",
        _SETUP,
        40,
        "Python's import system and the dynamic loader",
        "A package or library is not installed where the job runs, or in another version. "
        "Install it in the job's environment.",
        (
            ("modulenotfounderror",),
            ("importerror:",),
            ("no module named",),
            ("error while loading shared libraries",),
            ("cannot open shared object file",),
            ("undefined symbol:",),
            ("glibc", "not found"),
            ("no matching distribution found",),
            ("could not find a version that satisfies",),
            ("packagenotfounderror",),
        ),
    ),
    Signature(
        "command_missing",
        _SETUP,
        41,
        "the shell",
        "A command does not exist on the node or may not be run. Check its name and PATH.",
        (
            ("command not found",),
            ("/sh: ", ": not found"),
            ("sh: 1: ", "not found"),
            ("bad interpreter",),
            ("exec format error",),
            ("executable file not found",),
            ("cannot execute",),
        ),
    ),
    Signature(
        "file_missing",
        _SETUP,
        42,
        "the kernel through Python and the shell, on paths",
        "A file or folder is missing or closed to you. Check the path as the node sees it.",
        (
            ("filenotfounderror",),
            ("no such file or directory",),
            ("can't open file",),
            ("notadirectoryerror",),
            ("permission denied",),
            ("permissionerror",),
            ("is not a git repository",),
            ("not a git repository",),
        ),
    ),
    Signature(
        "bad_arguments",
        _SETUP,
        43,
        "argparse, click, Hydra, YAML and JSON readers",
        "The program does not take these arguments or this configuration. Correct them.",
        (
            ("error: unrecognized arguments",),
            ("error: the following arguments are required",),
            ("error: argument ",),
            ("no such option",),
            ("invalid choice:",),
            ("yaml.scanner",),
            ("yaml.parser",),
            ("jsondecodeerror",),
            ("configattributeerror",),
            ("configcompositionexception",),
            ("could not override",),
            ("missingmandatoryvalue",),
            ("missing configuration",),
            ("unbound variable",),
            ("environment variable", "not set"),
            ("environment variable", "expected"),
        ),
    ),
    Signature(
        "access_refused",
        _SETUP,
        44,
        "model hubs, trackers and Git, on missing rights",
        "An account or a token is missing or wrong. Give the job a valid one.",
        (
            ("401 client error",),
            ("403 client error",),
            ("404 client error",),
            ("gatedrepoerror",),
            ("repositorynotfounderror",),
            ("api_key not configured",),
            ("no api key configured",),
            ("authentication failed",),
            ("invalid username or password",),
            ("accessdenied",),
            ("nocredentialserror",),
            ("unable to locate credentials",),
        ),
    ),
    Signature(
        "driver_mismatch",
        _SETUP,
        45,
        "CUDA and PyTorch, on builds that do not fit the card or its driver",
        "The build of the framework does not fit the card or its driver. Install a fitting one, "
        "or choose another model of card.",
        (
            ("no kernel image is available",),
            ("driver version is insufficient",),
            ("not compiled with cuda enabled",),
            ("found no nvidia driver",),
            ("nvidia driver on your system is too old",),
            ("ptx", "unsupported toolchain"),
            ("is not compatible with the current pytorch installation",),
            ("invalid device ordinal",),
            ("no cuda-capable device is detected",),
            ("no cuda gpus are available",),
            ("duplicate gpu detected",),
        ),
    ),
)

OWN: tuple[Signature, ...] = (
    Signature(
        "device_assert",
        _CODE,
        50,
        "CUDA, on kernels that break their own rules",
        "A kernel of the program failed, often by an index out of range. Run it with "
        "CUDA_LAUNCH_BLOCKING=1 to see where.",
        (
            ("device-side assert",),
            ("illegal memory access",),
            ("cudaerrorillegaladdress",),
            ("misaligned address",),
            ("illegal instruction was encountered",),
            ("unspecified launch failure",),
            ("cublas_status_execution_failed",),
            ("cublas_status_invalid_value",),
        ),
    ),
    Signature(
        "shape_mismatch",
        _CODE,
        51,
        "PyTorch, JAX and numpy, on tensors that do not fit together",
        "Tensors or weights do not fit together. Compare their shapes, types and devices.",
        (
            ("mat1 and mat2",),
            ("size mismatch for",),
            ("shapes cannot be multiplied",),
            ("could not be broadcast together",),
            ("must match the size of tensor",),
            ("error(s) in loading state_dict",),
            ("expected all tensors to be on the same device",),
            ("is invalid for input of size",),
            ("expected scalar type",),
            ("does not require grad",),
            ("expected input batch_size",),
        ),
    ),
    Signature(
        "not_a_number",
        _CODE,
        52,
        "training loops that stop when the loss is no number",
        "The loss is no longer a number. Lower the learning rate, clip gradients, or go back to "
        "an earlier checkpoint.",
        (
            ("loss is nan",),
            ("loss is inf",),
            ("nan loss",),
            ("non-finite loss",),
            ("returned nan values",),
            ("floatingpointerror",),
        ),
    ),
    Signature(
        "script_error",
        _CODE,
        53,
        "the shell, on text it cannot read",
        "The script itself is wrong. Check it with `bash -n`.",
        (("syntax error near unexpected token",), ("syntax error: unexpected",)),
    ),
    Signature(
        "crash",
        _CODE,
        58,
        "the C library and Python's fault handler",
        "The program crashed in native code. Run it with PYTHONFAULTHANDLER=1 to see where.",
        (
            ("segmentation fault",),
            ("sigsegv",),
            ("double free or corruption",),
            ("stack smashing detected",),
            ("free(): invalid",),
            ("corrupted size vs",),
            ("pure virtual method called",),
        ),
    ),
)

FOLLOWING: tuple[Signature, ...] = (
    Signature(
        "collective_timeout",
        _HANG,
        70,
        "PyTorch's NCCL watchdog and Gloo, when a collective never ends",
        "A collective operation never ended: one rank was late, stuck, or took another branch. "
        "Find the rank that did not take part.",
        (
            ("watchdog caught collective operation timeout",),
            ("collective operation timeout",),
            ("ran for", "milliseconds before timing out"),
            ("failed to pass monitoredbarrier",),
            ("timed out waiting", "recv operation"),
            ("timed out waiting", "send operation"),
            ("heartbeat monitor timed out",),
            ("heartbeatmonitor timed out",),
            ("collective timeout",),
        ),
    ),
    Signature(
        "start_barrier",
        _HANG,
        71,
        "PyTorch's rendezvous, when ranks never meet",
        "Not all ranks met. Look for a rank that started late or ended early.",
        (
            ("rendezvoustimeouterror",),
            ("timed out after", "waiting for clients"),
            ("wait timeout after", "ms"),
            ("timeout waiting for key",),
            ("store timeout",),
            ("dataloader timed out",),
        ),
    ),
    Signature(
        "peer_lost",
        _NET,
        75,
        "NCCL, Gloo and sockets, when a peer goes away",
        "The connection to another rank broke. If another rank failed first, its log says why; "
        "else run the job again and tell the operator the nodes.",
        (
            ("ncclremoteerror",),
            ("ncclsystemerror",),
            ("remote process exited or there was a network error",),
            ("connection reset by peer",),
            ("connection closed by",),
            ("broken pipe",),
            ("connection refused",),
            ("connection timed out",),
            ("socketstartconnect",),
            ("socketpollconnect",),
            ("ncclsocket",),
            ("max retries exceeded",),
            ("read timed out",),
            ("connecttimeouterror",),
        ),
    ),
)

TABLE: tuple[Signature, ...] = tuple(
    sorted(
        (*HARDWARE, *RESOURCES, *PLACES, *SETUP, *OWN, *FOLLOWING),
        key=lambda signature: signature.rank,
    )
)
