/* A libnvidia-ml.so.1 of eight H100s, with the functions that the tests need.
   Written for these tests from the documented signatures of NVML.
   STUB_NVML_INIT is what nvmlInit_v2 returns; 0 or unset = success.
   Like drivers before 535 it has only the old name of the throttle reasons. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } pci;

static int text(char *out, unsigned size, const char *format, int n) {
	return snprintf(out, size, format, n) < (int)size ? 0 : 7;
}
static int number(void *device) { return (int)(long)device - 1; }

int nvmlInit_v2(void) { const char *s = getenv("STUB_NVML_INIT"); return s ? atoi(s) : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(out, size, "570.%d", 86); }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 12080; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 8; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **device) { *device = (void *)(long)(i + 1); return i < 8 ? 0 : 2; }
int nvmlDeviceGetUUID(void *d, char *out, unsigned size) { return text(out, size, "GPU-0000000%d-1111-2222-3333-444444444444", number(d)); }
int nvmlDeviceGetName(void *d, char *out, unsigned size) { (void)d; return text(out, size, "NVIDIA H100 %dGB HBM3", 80); }
int nvmlDeviceGetMemoryInfo(void *d, memory *m) { m->total = 81559ULL << 20; m->used = number(d) == 7 ? 40ULL << 30 : 4 << 20; m->free = m->total - m->used; return 0; }
int nvmlDeviceGetPciInfo_v3(void *d, pci *p) { memset(p, 0, sizeof *p); return text(p->address, sizeof p->address, "00000000:%02X:00.0", 27 + number(d)); }
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) { (void)d; *now = *pending = 0; return 0; }
int nvmlDeviceGetClockInfo(void *d, int type, unsigned *mhz) { *mhz = type == 2 ? 2619 : number(d) == 3 ? 1200 : 1980; return 0; }
int nvmlDeviceGetMaxClockInfo(void *d, int type, unsigned *mhz) { (void)d; *mhz = type == 2 ? 2619 : 1980; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits) { *bits = number(d) == 3 ? 0x44 : 1; return 0; }
int nvmlDeviceGetNvLinkState(void *d, unsigned link, unsigned *on) { (void)d; *on = 1; return link < 18 ? 0 : 2; }
