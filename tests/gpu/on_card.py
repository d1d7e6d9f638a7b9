#!/usr/bin/env python3
"""A program for a card, through the CUDA driver alone: it says what it sees, then keeps it busy.

Prints `files` and the device files it finds, `sees` and the UUIDs of the cards; then holds MIB of
the first card for SECONDS, writing all the while. With LEAVES it leaves a process behind that goes
on in a session of its own, and ends with 0 itself; with FAULTS it writes where nothing is.
"""

import ctypes
import glob
import os
import sys
import time


def call(name: str, *arguments: object) -> None:
    """Ends the program where the driver refuses."""
    code = getattr(CUDA, name)(*arguments)
    if code:
        sys.exit(f"{name} answers with CUDA error {code}")


def uuid_of(index: int) -> str:
    device, name = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    call("cuDeviceGet", ctypes.byref(device), index)
    call("cuDeviceGetUuid_v2", ctypes.byref(name), device)
    digits = bytes(name).hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "GPU-" + "-".join(parts)


def look() -> int:
    """The number of cards; 100 is the driver's word for none."""
    print("files", *sorted(glob.glob("/dev/nvidia*")), flush=True)
    if CUDA.cuInit(0) == 100:
        print("sees", flush=True)
        return 0
    count = ctypes.c_int(0)
    call("cuDeviceGetCount", ctypes.byref(count))
    print("sees", *(uuid_of(index) for index in range(count.value)), flush=True)
    return count.value


def begin() -> None:
    """On the first card."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


def keep_busy(mib: int, seconds: float) -> None:
    """Takes so much memory and writes it over and over."""
    memory = ctypes.c_uint64()
    begin()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20))
    print("holds", mib, flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        call("cuMemsetD32_v2", memory, ctypes.c_uint(0xA5A5A5A5), ctypes.c_size_t(mib << 18))
        call("cuCtxSynchronize")


def leave_one_behind(mib: int, seconds: float) -> None:
    """A process that has let go of everything by which it could be found through its parents."""
    heard, told = os.pipe()
    if os.fork():
        os.close(told)
        os.read(heard, 1)
        time.sleep(3)
        return
    os.setsid()
    if os.fork() == 0 and look():
        os.write(told, b"1")
        keep_busy(mib, seconds)
    os._exit(0)


def write_where_nothing_is() -> None:
    """A program's own fault: the driver tells it as an Xid, too."""
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), STRAY_WRITE)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"stray")
    call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    call("cuCtxSynchronize")


# For the driver's own compiler.
STRAY_WRITE = b"""
.version 6.4
.target sm_75
.address_size 64
.visible .entry stray()
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 16;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
CUDA = ctypes.CDLL("libcuda.so.1")
MIB, SECONDS = int(os.environ.get("MIB", "0")), float(os.environ.get("SECONDS", "5"))
if os.environ.get("LEAVES"):
    leave_one_behind(MIB, SECONDS)
elif look() and os.environ.get("FAULTS"):
    begin()
    write_where_nothing_is()
elif MIB:
    keep_busy(MIB, SECONDS)
