"""Tries one device out: a process of its own that writes memory and reads it back."""

from __future__ import annotations

import ctypes
import os
import sys

_SIZE = 256 * 1024 * 1024
_PATTERNS = (0x00000000, 0xFFFFFFFF, 0xA5A5A5A5, 0x5A5A5A5A)


class CheckFailed(Exception):
    """What the device did not do."""


def main(uuid: str) -> None:
    """Exit code 0 if the device keeps what is written to it; else the reason on standard error."""
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    try:
        check_memory()
    except (CheckFailed, OSError) as problem:
        sys.exit(f"{problem}"[:500])


def check_memory(size: int = _SIZE) -> None:
    """Patterns through `size` bytes of the first visible device; raises CheckFailed, OSError."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    _call(cuda, "cuInit", 0)
    _call(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    _call(cuda, "cuCtxCreate_v2", ctypes.byref(context), 0, device)
    _call(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
    words = (ctypes.c_uint32 * (size // 4))()
    for pattern in _PATTERNS:
        _call(cuda, "cuMemsetD32_v2", memory, ctypes.c_uint(pattern), ctypes.c_size_t(size // 4))
        _call(cuda, "cuMemcpyDtoH_v2", words, memory, ctypes.c_size_t(size))
        if bytes(words) != pattern.to_bytes(4, sys.byteorder) * (size // 4):
            raise CheckFailed(f"memory does not keep the pattern {pattern:#010x}")
    _call(cuda, "cuMemFree_v2", memory)
    _call(cuda, "cuCtxDestroy_v2", context)


def _call(cuda: ctypes.CDLL, name: str, *arguments: object) -> None:
    code = getattr(cuda, name)(*arguments)
    if code:
        raise CheckFailed(f"{name} answers with CUDA error {code}")
