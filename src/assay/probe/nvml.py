"""NVIDIA's management library through ctypes: typed calls that end in a value or an `NvmlError`.

Signatures and numbers are those of nvml.h (CUDA 12.x); functions that a driver lacks are reported by name.
"""

from __future__ import annotations

import ctypes
from types import TracebackType

from assay.errors import EnvironmentLackError

LIBRARIES = ("libnvidia-ml.so.1", "libnvidia-ml.so")

_TEXT_BYTES = 128
_INSUFFICIENT_SIZE = 7
_GPU_IS_LOST = 15

CLOCK_SM = 1
CLOCK_MEMORY = 2

VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
#: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX of nvml.h, and the scope that sums over all links.
_NVLINK_SENT_KiB, _ALL_LINKS = 138, 0xFFFFFFFF
#: NVML_NVLINK_DEVICE_TYPE_SWITCH of nvml.h.
_TO_SWITCH = 2
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
TOPOLOGY_LEVELS = {0: "board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}

#: Bits of nvmlClocksEventReasons, called throttle reasons before driver 535.
THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake",
    0x100: "display_clock",
}

#: CUDA cores in one SM by compute capability. Source: CUDA C++ Programming Guide, compute capabilities.
_CORES_PER_SM = {
    (6, 0): 64,
    (6, 1): 128,
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
}


class NvmlError(EnvironmentLackError):
    """The library is not there, lacks a function, or answered with an error."""

    def __init__(self, what: str, *, function: str, code: int | None = None) -> None:
        super().__init__(what)
        self.function = function
        self.code = code

    @property
    def is_lost(self) -> bool:
        """Whether the GPU has fallen off the bus or is otherwise inaccessible."""
        return self.code == _GPU_IS_LOST


class _PciInfo(ctypes.Structure):
    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of versions 2 and 3 of the call."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t; `value` is a union of eight bytes, here as the unsigned one."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp_us", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("code", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )


class Nvml:
    """The loaded and initialised library; a context manager that shuts it down.

    Calls go to the driver and may block where the driver hangs, so a caller with a deadline puts this
    into a process of its own.
    """

    def __init__(self, library: str | None = None) -> None:
        self._library = _load(library)
        self._call("nvmlInit_v2")

    def __enter__(self) -> Nvml:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the library back; devices of it are of no use afterwards."""
        getattr(self._library, "nvmlShutdown", int)()

    def driver_version(self) -> str:
        """The version of the kernel driver: 580.65.06."""
        return self._text("nvmlSystemGetDriverVersion")

    def cuda_version(self) -> str:
        """The newest CUDA that the driver supports: 12080 is told as 12.8."""
        version = self._uint("nvmlSystemGetCudaDriverVersion_v2")
        return f"{version // 1000}.{version % 1000 // 10}"

    def device_count(self) -> int:
        """How many GPUs the driver has found; one that is lost since then still counts."""
        return self._uint("nvmlDeviceGetCount_v2")

    def device(self, index: int) -> Device:
        """The GPU at `index`, in PCI bus order."""
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return Device(self, handle, index)

    def device_named(self, name: str) -> Device:
        """The GPU with this UUID (with or without "GPU-") or PCI bus id, as a framework names its device.

        Frameworks number the devices that CUDA_VISIBLE_DEVICES leaves, NVML numbers all of them.
        """
        wanted = name.lower().removeprefix("gpu-")
        for index in range(self.device_count()):
            try:
                device = self.device(index)
                uuid = device.text("nvmlDeviceGetUUID").lower().removeprefix("gpu-")
                found = wanted in (uuid, device.pci_bus_id())
            except NvmlError:
                # A GPU that is lost cannot be the one that a framework runs on.
                continue
            if found:
                return device
        raise NvmlError(f"no GPU {name!r} among those that the driver knows", function="nvmlDeviceGetUUID")

    def _call(self, function: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:
            raise NvmlError(f"driver lacks {function}", function=function) from None
        if code:
            raise NvmlError(f"{function}: {self._error_text(code)} ({code})", function=function, code=code)

    def _error_text(self, code: int) -> str:
        try:
            describe = self._library.nvmlErrorString
        except AttributeError:
            return "error"
        describe.restype = ctypes.c_char_p
        text = describe(code)
        return text.decode("ascii", "replace") if isinstance(text, bytes) else "error"

    def _uint(self, function: str, *arguments: object) -> int:
        value = ctypes.c_uint()
        self._call(function, *arguments, ctypes.byref(value))
        return value.value

    def _ulonglong(self, function: str, *arguments: object) -> int:
        value = ctypes.c_ulonglong()
        self._call(function, *arguments, ctypes.byref(value))
        return value.value

    def _text(self, function: str, *arguments: object) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(function, *arguments, buffer, ctypes.c_uint(_TEXT_BYTES))
        return buffer.value.decode("utf-8", "replace").strip()


class Device:
    """One GPU. Every method raises `NvmlError` where the driver cannot tell."""

    def __init__(self, nvml: Nvml, handle: ctypes.c_void_p, index: int) -> None:
        self._nvml = nvml
        self._handle = handle
        self.index = index

    def text(self, function: str) -> str:
        """The answer of a call that fills a text: nvmlDeviceGetName, …GetUUID, …GetSerial."""
        return self._nvml._text(function, self._handle)

    def uint(self, function: str, *arguments: int) -> int:
        """The answer of a call that gives one number, after `arguments`."""
        return self._nvml._uint(function, self._handle, *map(ctypes.c_uint, arguments))

    def uints(self, function: str, count: int) -> tuple[int, ...]:
        """The answers of a call that gives `count` numbers."""
        values = [ctypes.c_uint() for _ in range(count)]
        self._nvml._call(function, self._handle, *map(ctypes.byref, values))
        return tuple(value.value for value in values)

    def pci_bus_id(self) -> str:
        """As sysfs spells it: 0000:1b:00.0, with a domain of four digits in lower case."""
        info = _PciInfo()
        self._nvml._call("nvmlDeviceGetPciInfo_v3", self._handle, ctypes.byref(info))
        domain, _, rest = info.bus_id.decode("ascii", "replace").lower().partition(":")
        return f"{domain[-4:]}:{rest}"

    def memory_bytes(self) -> tuple[int, int]:
        """Total and used; the driver's own share counts as used."""
        memory = _Memory()
        self._nvml._call("nvmlDeviceGetMemoryInfo", self._handle, ctypes.byref(memory))
        return memory.total, memory.used

    def ecc_errors(self, *, corrected: bool) -> int:
        """Errors since the driver was loaded (the volatile counter)."""
        kind, volatile = ctypes.c_uint(0 if corrected else 1), ctypes.c_uint(0)
        return self._nvml._ulonglong("nvmlDeviceGetTotalEccErrors", self._handle, kind, volatile)

    def throttle_reasons(self) -> tuple[str, ...]:
        """The named reasons why the clock is lower than it could be; bits without a name in hexadecimal."""
        try:
            bits = self._nvml._ulonglong("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        except NvmlError as error:
            if error.code is not None:
                raise
            bits = self._nvml._ulonglong("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle)
        rest = bits & ~sum(THROTTLE_REASONS)
        named = [name for bit, name in THROTTLE_REASONS.items() if bits & bit]
        return (*named, *([hex(rest)] if rest else ()))

    def sm_count(self) -> int:
        """Streaming multiprocessors: CUDA cores over the cores that one has in this architecture."""
        major, minor = self.uints("nvmlDeviceGetCudaComputeCapability", 2)
        function = "nvmlDeviceGetNumGpuCores"
        cores = self.uint(function)
        if (major, minor) not in _CORES_PER_SM:
            raise NvmlError(
                f"{cores} cores, but cores per SM of sm_{major}{minor} are unknown", function=function
            )
        return cores // _CORES_PER_SM[major, minor]

    def nvlinks(self, most: int = 64) -> tuple[bool, ...]:
        """Whether each NVLink is up, in order; none where the GPU has no NVLink."""
        states: list[bool] = []
        for link in range(most):
            try:
                states.append(self.uint("nvmlDeviceGetNvLinkState", link) == 1)
            except NvmlError as error:
                # Past the last link the driver answers "invalid argument" or "not supported".
                if error.code in (2, 3):
                    break
                raise
        return tuple(states)

    def nvlinks_lead_to_switches(self) -> bool:
        """Whether every NVLink that is up leads to an NVSwitch, and so to every other card behind it."""
        up = [link for link, is_up in enumerate(self.nvlinks()) if is_up]
        kinds = [self.uint("nvmlDeviceGetNvLinkRemoteDeviceType", link) for link in up]
        return bool(kinds) and all(kind == _TO_SWITCH for kind in kinds)

    def nvlink_sent_bytes(self) -> int:
        """Data bytes sent so far over all NVLinks of this GPU; the driver counts in KiB."""
        function = "nvmlDeviceGetFieldValues"
        asked = _FieldValue(field=_NVLINK_SENT_KiB, scope=_ALL_LINKS)
        self._nvml._call(function, self._handle, 1, ctypes.byref(asked))
        if asked.code:
            raise NvmlError("the driver has no count of NVLink bytes", function=function, code=asked.code)
        return int(asked.value) * 1024

    def process_pids(self) -> tuple[int, ...]:
        """The processes that have a compute context; numbers are those of the host's pid namespace."""
        function = "nvmlDeviceGetComputeRunningProcesses_v3"
        room = 32
        while True:
            count, processes = ctypes.c_uint(room), (_Process * room)()
            try:
                self._nvml._call(function, self._handle, ctypes.byref(count), processes)
            except NvmlError as error:
                if error.code is None and not function.endswith("_v2"):
                    function = "nvmlDeviceGetComputeRunningProcesses_v2"
                    continue
                if error.code == _INSUFFICIENT_SIZE and room < 4096:
                    room *= 2
                    continue
                raise
            return tuple(processes[i].pid for i in range(min(count.value, room)))

    def topology_to(self, other: Device) -> int:
        """The nearest common ancestor of two GPUs on the PCIe tree, a key of `TOPOLOGY_LEVELS`."""
        return self._nvml._uint("nvmlDeviceGetTopologyCommonAncestor", self._handle, other._handle)


def _load(library: str | None) -> ctypes.CDLL:
    names = LIBRARIES if library is None else (library,)
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            # A library that is there but broken is worth its own message; a missing one is not.
            if "No such file" not in str(error):
                raise NvmlError(f"cannot load {name}: {error}", function="dlopen") from None
    raise NvmlError(f"no {names[0]} on this host", function="dlopen")
