"""The end of the table: what follows when another rank failed, was late or went away."""

from __future__ import annotations

from scheduler.states import FailureClass
from scheduler.triage.signatures import Signature

_NET, _HANG = FailureClass.INFRA_NETWORK, FailureClass.HANG

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
            ("timed out in blocking wait",),
            ("watchdog got stuck",),
            ("without making progress in monitoring",),
            ("observed flight recorder dump signal",),
            # Horovod's stall inspector, XLA's rendezvous and watchdog, TensorFlow's collectives.
            ("submitted to be reduced, gathered or broadcasted by subset of ranks",),
            ("stalled ranks:",),
            ("stall_inspector", "stalled"),
            ("this thread has been waiting for", "may be stuck"),
            ("termination timeout for", "seconds exceeded"),
            ("collective ops", "timed out"),
            ("rpc ran for more than set timeout",),
            # Python's own watchdog (faulthandler), which prints the stacks and ends the program.
            ("timeout (0:", ")!"),
            ("timeout (1:", ")!"),
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
            ("retrieving nccluniqueid", "timeout"),
            ("barrier timed out",),
            ("barriererror", "timed out"),
            ("deadline_exceeded", "barrier"),
            ("deadline_exceeded", "coordination"),
            ("timed out waiting for", "workers to"),
            ("timed out waiting for", "ranks"),
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
