/* A stand-in for libnvidia-ml.so.1: two cards whose faults stand in the file $NVML_STUB_FAULTS,
   one a line: "INDEX gone|lost|hang|hot|ecc|process|screen|memory|deaf|dark|blind|slow N" (memory in MiB; 256 more are reserved
   for the driver; gone cards have no handle either, hanging ones answer once they do no more, deaf ones tell no Xid, dark ones no power, blind ones no use, slow ones no limit but N as why their clocks are low) or "INDEX xid CODE", which is told once a library.
   The second card's driver is old. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, SIZE = 7, TIMEOUT = 10, LOST = 15 };
typedef struct { int index; } card;
typedef struct { card *device; unsigned long long type, data; unsigned gi, ci; } event;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;

static card cards[2] = {{0}, {1}};
static int told[2], heard[2];

static long fault(const card *c, const char *kind) {
    const char *path = getenv("NVML_STUB_FAULTS");
    FILE *f = path ? fopen(path, "r") : NULL;
    int index;
    long value, found = 0;
    char word[32];
    while (f && fscanf(f, "%d %31s %ld", &index, word, &value) == 3)
        if (index == c->index && !strcmp(word, kind)) found = value;
    if (f) fclose(f);
    return found;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "999.1"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, card **c) { *c = &cards[i]; return fault(*c, "gone") ? LOST : OK; }
int nvmlDeviceGetUUID(card *c, char *s, unsigned n) {
    if (fault(c, "lost")) return LOST;
    snprintf(s, n, "GPU-0000000%d", c->index);
    return OK;
}
int nvmlDeviceGetName(card *c, char *s, unsigned n) { (void)c; snprintf(s, n, "Stub 1"); return OK; }
int nvmlDeviceGetMemoryInfo(card *c, unsigned long long *m) {
    if (fault(c, "lost")) return LOST;
    m[0] = 8ULL << 30;
    m[2] = ((unsigned long long)fault(c, "memory") << 20) + (c->index == 0 ? 1ULL << 28 : 0);
    m[1] = m[0] - m[2];
    return OK;
}
int nvmlDeviceGetMemoryInfo_v2(card *c, memory *m) {
    if (c->index == 1 || m->version != 0x02000028) return NOT_SUPPORTED;
    if (fault(c, "lost")) return LOST;
    m->total = 8ULL << 30;
    m->reserved = 1ULL << 28;
    m->used = (unsigned long long)fault(c, "memory") << 20;
    m->free = m->total - m->reserved - m->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(card *c, unsigned *u) {
    u[0] = 37;
    u[1] = 5;
    return fault(c, "lost") ? LOST : fault(c, "blind") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetPowerUsage(card *c, unsigned *w) {
    *w = 61000;
    return fault(c, "lost") ? LOST : fault(c, "dark") ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetTemperature(card *c, unsigned sensor, unsigned *t) {
    (void)sensor;
    while (fault(c, "hang")) usleep(20000);
    *t = fault(c, "hot") ? (unsigned)fault(c, "hot") : 40;
    return fault(c, "lost") ? LOST : OK;
}
int nvmlDeviceGetTemperatureThreshold(card *c, unsigned which, unsigned *t) {
    *t = 90;
    return which == 1 && !fault(c, "slow") ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetCurrentClocksEventReasons(card *c, unsigned long long *why) {
    *why = (unsigned long long)fault(c, "slow");
    return OK;
}
int nvmlDeviceGetTotalEccErrors(card *c, unsigned type, unsigned counter, unsigned long long *n) {
    if (c->index == 1) return NOT_SUPPORTED;
    *n = type == 1 && counter == 0 ? (unsigned long long)fault(c, "ecc") : 0;
    return OK;
}
static int processes(card *c, const char *kind, unsigned *n, process *p) {
    long pid = fault(c, kind);
    if (!pid) { *n = 0; return OK; }
    if (!p) { *n = 1; return SIZE; }
    *n = 1;
    memset(p, 0, sizeof *p);
    p->pid = (unsigned)pid;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(card *c, unsigned *n, process *p) { return processes(c, "process", n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(card *c, unsigned *n, process *p) { return processes(c, "screen", n, p); }
int nvmlEventSetCreate(void **set) { *set = told; return OK; }
int nvmlDeviceRegisterEvents(card *c, unsigned long long types, void *set) {
    (void)set;
    heard[c->index] = types == 8 && !fault(c, "deaf");
    return heard[c->index] ? OK : NOT_SUPPORTED;
}
int nvmlEventSetWait_v2(void *set, event *e, unsigned ms) {
    (void)set; (void)ms;
    for (int i = 0; i < 2; i++) {
        long code = fault(&cards[i], "xid");
        if (code && heard[i] && told[i] != (int)code) {
            told[i] = (int)code;
            e->device = &cards[i]; e->type = 8; e->data = (unsigned long long)code; e->gi = e->ci = 0;
            return OK;
        }
    }
    return TIMEOUT;
}
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "stub error"; }
