/* A stand-in for libnvidia-ml.so.1, told what to answer by the text file that $NVML_STUB names.
 *
 *   cc -shared -fPIC -o libnvidia-ml.so.1 nvml_stub.c
 *   cc -shared -fPIC -DOLD_DRIVER -o libnvidia-ml.so.1 nvml_stub.c     lacks what drivers before 450 lack
 *
 * Each line of the file is "gpu key value"; gpu -1 is the machine. Without a line the answer is that of
 * a healthy, idle H100. "2 lost 1" makes every call for GPU 2 answer that the GPU is lost, "2 gone 1" its
 * handle too; "2 pid3 4711" gives GPU 2 a fourth process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { MOST_GPUS = 64 };

typedef int Return;
typedef unsigned long long Wide;
typedef struct { int index; } *Device;

static long told(int gpu, const char *key, long otherwise)
{
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[64];
    int index;
    long value;

    if (!file)
        return otherwise;
    while (fscanf(file, "%d %63s %ld", &index, name, &value) == 3)
        if (index == gpu && !strcmp(name, key))
            otherwise = value;
    fclose(file);
    return otherwise;
}

static Return number(Device device, const char *key, long otherwise, unsigned *value)
{
    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    *value = (unsigned)told(device->index, key, otherwise);
    return OK;
}

static Return text(Device device, char *buffer, unsigned size, const char *format)
{
    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    snprintf(buffer, size, format, device->index);
    return OK;
}

/* The machine. */

Return nvmlInit_v2(void) { return (Return)told(-1, "init", OK); }
Return nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
Return nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(Return code)
{
    switch (code) {
    case OK: return "Success";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

Return nvmlSystemGetDriverVersion(char *buffer, unsigned size)
{
    snprintf(buffer, size, "580.00.stub");
    return OK;
}

Return nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = (int)told(-1, "cuda", 12080);
    return OK;
}

Return nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)told(-1, "count", 8);
    return OK;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device)
{
    static struct { int index; } devices[MOST_GPUS];

    if (index >= MOST_GPUS || index >= (unsigned)told(-1, "count", 8))
        return INVALID_ARGUMENT;
    if (told((int)index, "gone", 0))
        return GPU_IS_LOST;
    devices[index].index = (int)index;
    *device = (Device)&devices[index];
    return OK;
}

/* What a GPU is. */

Return nvmlDeviceGetName(Device d, char *b, unsigned n) { return text(d, b, n, "NVIDIA H100 80GB HBM3"); }
Return nvmlDeviceGetUUID(Device d, char *b, unsigned n) { return text(d, b, n, "GPU-stub-%04d"); }
Return nvmlDeviceGetSerial(Device d, char *b, unsigned n) { return text(d, b, n, "16500000%05d"); }
Return nvmlDeviceGetVbiosVersion(Device d, char *b, unsigned n) { return text(d, b, n, "96.00.stub"); }

Return nvmlDeviceGetPciInfo_v3(Device device, void *info)
{
    struct {
        char legacy[16];
        unsigned domain, bus, device, device_id, subsystem_id;
        char bus_id[32];
    } *pci = info;

    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)told(device->index, "bus", 0x1a + device->index);
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return OK;
}

Return nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor)
{
    *major = (int)told(device->index, "cc_major", 9);
    *minor = (int)told(device->index, "cc_minor", 0);
    return told(device->index, "lost", 0) ? GPU_IS_LOST : OK;
}

Return nvmlDeviceGetVirtualizationMode(Device d, unsigned *v) { return number(d, "virtualization", 0, v); }
Return nvmlDeviceGetComputeMode(Device d, unsigned *v) { return number(d, "compute_mode", 0, v); }
Return nvmlDeviceGetPersistenceMode(Device d, unsigned *v) { return number(d, "persistence", 1, v); }

/* How it is. */

Return nvmlDeviceGetMemoryInfo(Device device, Wide *total_free_used)
{
    const Wide MiB = 1 << 20;

    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    total_free_used[0] = (Wide)told(device->index, "memory_mib", 81559) * MiB;
    total_free_used[2] = (Wide)told(device->index, "used_mib", 600) * MiB;
    total_free_used[1] = total_free_used[0] - total_free_used[2];
    return OK;
}

Return nvmlDeviceGetEccMode(Device device, unsigned *current, unsigned *pending)
{
    Return code = number(device, "ecc", 1, current);
    *pending = *current;
    return code;
}

Return nvmlDeviceGetTotalEccErrors(Device device, int uncorrected, int aggregate, Wide *count)
{
    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    if (aggregate)
        return INVALID_ARGUMENT;
    *count = (Wide)told(device->index, uncorrected ? "ecc_unc" : "ecc_cor", 0);
    return OK;
}

Return nvmlDeviceGetTemperature(Device device, int sensor, unsigned *celsius)
{
    return sensor ? INVALID_ARGUMENT : number(device, "temp", 45, celsius);
}

Return nvmlDeviceGetPowerUsage(Device d, unsigned *v) { return number(d, "power_mw", 300000, v); }
Return nvmlDeviceGetEnforcedPowerLimit(Device d, unsigned *v) { return number(d, "limit_mw", 700000, v); }
Return nvmlDeviceGetPowerManagementDefaultLimit(Device d, unsigned *v) { return number(d, "tdp_mw", 700000, v); }

Return nvmlDeviceGetClockInfo(Device device, int type, unsigned *megahertz)
{
    return type == 2 ? number(device, "clk_mem", 2619, megahertz) : number(device, "clk_sm", 1980, megahertz);
}

Return nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned *megahertz)
{
    return number(device, type == 2 ? "max_mem" : "max_sm", type == 2 ? 2619 : 1980, megahertz);
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, Wide *bits)
{
    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    *bits = (Wide)told(device->index, "throttle", 0);
    return OK;
}

Return nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *v) { return number(d, "pcie_gen", 5, v); }
Return nvmlDeviceGetMaxPcieLinkGeneration(Device d, unsigned *v) { return number(d, "pcie_gen_max", 5, v); }
Return nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *v) { return number(d, "pcie_width", 16, v); }
Return nvmlDeviceGetMaxPcieLinkWidth(Device d, unsigned *v) { return number(d, "pcie_width_max", 16, v); }
Return nvmlDeviceGetPcieReplayCounter(Device d, unsigned *v) { return number(d, "replays", 0, v); }

Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *up)
{
    char key[32];

    if (link >= (unsigned)told(device->index, "nvlinks", 18))
        return told(device->index, "nvlinks", 18) ? INVALID_ARGUMENT : NOT_SUPPORTED;
    snprintf(key, sizeof key, "nvlink%u", link);
    return number(device, key, 1, up);
}

Return nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned *version)
{
    if (link >= (unsigned)told(device->index, "nvlinks", 18))
        return NOT_SUPPORTED;
    return number(device, "nvlink_version", 6, version);
}

/* What a link leads to: 0 another GPU, 2 an NVSwitch. */
Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned *kind)
{
    if (link >= (unsigned)told(device->index, "nvlinks", 18))
        return NOT_SUPPORTED;
    return number(device, "nvlink_leads_to", 2, kind);
}

typedef struct {
    unsigned field, scope;
    long long timestamp, latency;
    int type, code;
    union { unsigned u; Wide wide; } value;
} FieldValue;

/* Field 138: KiB of data sent over all NVLinks; "0 nvlink_sent_KiB 12". */
Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        values[i].code = values[i].field == 138 && told(device->index, "nvlinks", 18) ? OK : NOT_SUPPORTED;
        values[i].value.wide = (Wide)told(device->index, "nvlink_sent_KiB", 0);
    }
    return told(device->index, "lost", 0) ? GPU_IS_LOST : OK;
}

Return nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned *level)
{
    *level = one->index / 4 == other->index / 4 ? 20 : 50;
    return told(one->index, "lost", 0) || told(other->index, "lost", 0) ? GPU_IS_LOST : OK;
}

/* What came with drivers 450 and later. */
#ifndef OLD_DRIVER

Return nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending)
{
    Return code = number(device, "mig", 0, current);
    *pending = *current;
    return code;
}

Return nvmlDeviceGetNumGpuCores(Device d, unsigned *v) { return number(d, "cores", 132 * 128, v); }

Return nvmlDeviceGetRemappedRows(Device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                 unsigned *failed)
{
    number(d, "rows_cor", 0, corrected);
    number(d, "rows_unc", 0, uncorrected);
    number(d, "rows_pending", 0, pending);
    return number(d, "rows_failed", 0, failed);
}

Return nvmlDeviceGetCurrentClocksEventReasons(Device device, Wide *bits)
{
    return nvmlDeviceGetCurrentClocksThrottleReasons(device, bits);
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *count, void *list)
{
    struct {
        unsigned pid;
        Wide used;
        unsigned gpu_instance, compute_instance;
    } *process = list;
    unsigned room = *count, found = 0;
    char key[32];
    long pid;

    if (told(device->index, "lost", 0))
        return GPU_IS_LOST;
    for (;; found++) {
        snprintf(key, sizeof key, "pid%u", found);
        pid = told(device->index, key, -1);
        if (pid < 0 && found < (unsigned)told(device->index, "pids", 0))
            pid = 1000 + (long)found;
        if (pid < 0)
            break;
        if (found < room) {
            memset(&process[found], 0, sizeof process[found]);
            process[found].pid = (unsigned)pid;
        }
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

#endif
