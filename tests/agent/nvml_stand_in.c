/* Stands in for libnvidia-ml.so.1: what it tells stands in the text file $NVML_STAND_IN, read anew with every call that
   begins a look (nvmlInit), so that a test changes it while an agent runs.  A word, then fields by blanks:

     card BUS UUID TOTAL_MIB USED_MIB STATE ISLAND SWITCH NAME…     STATE: ok, lost, gone (no handle at all)
     slice UUID TOTAL_MIB USED_MIB SLICES                           a MIG slice of the card above, which is in MIG mode
     init N                                                         nvmlInit answers N
     hang | crash                                                   so does nvmlInit

   Cards of one ISLAND (not 0) have NVLink between them, those of one SWITCH a PCIe switch.  Without the file there is
   no driver.  Written from nvml.h's published prototypes, as nvidia-ml-py calls them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, NO_DRIVER = 9, LOST = 15, MOST = 64 };
typedef unsigned long long bytes;
typedef struct {
  char bus[32], uuid[96], name[96], state[16];
  bytes total, used;
  int island, pci_switch, first_slice, slices, is_slice;
} device;
static device devices[MOST];
static int cards[MOST], card_count, device_count;

static int read_file(void) {
  const char *path = getenv("NVML_STAND_IN");
  FILE *file = path ? fopen(path, "r") : NULL;
  char line[512], word[16];
  int answer = OK, card = -1;
  if (!file) return NO_DRIVER;
  card_count = device_count = 0;
  while (fgets(line, sizeof line, file) && device_count < MOST) {
    device *new = &devices[device_count];
    if (sscanf(line, "%15s", word) != 1) continue;
    memset(new, 0, sizeof *new);
    if (!strcmp(word, "hang")) for (;;) pause();
    if (!strcmp(word, "crash")) raise(SIGSEGV);
    if (!strcmp(word, "init")) sscanf(line, "init %d", &answer);
    if (!strcmp(word, "card")) {
      sscanf(line, "card %31s %95s %llu %llu %15s %d %d %95[^\n]", new->bus, new->uuid, &new->total, &new->used,
             new->state, &new->island, &new->pci_switch, new->name);
      card = device_count, cards[card_count++] = device_count++;
    }
    if (!strcmp(word, "slice") && card >= 0) {
      sscanf(line, "slice %95s %llu %llu %d", new->uuid, &new->total, &new->used, &new->slices);
      strcpy(new->state, "ok");
      new->is_slice = 1;
      if (!devices[card].first_slice) devices[card].first_slice = device_count;
      devices[card].slices++, device_count++;
    }
  }
  fclose(file);
  return answer;
}

int nvmlInit_v2(void) { return read_file(); }
int nvmlInitWithFlags(unsigned flags) { return flags ? NOT_SUPPORTED : read_file(); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
  switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case NO_DRIVER: return "Driver Not Loaded";
    case LOST: return "GPU is lost";
    default: return "Unknown Error";
  }
}

static int answers(const device *one) { return strcmp(one->state, "ok") ? LOST : OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = card_count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned number, device **found) {
  if (number >= (unsigned)card_count) return 2;
  *found = &devices[cards[number]];
  return strcmp((*found)->state, "gone") ? OK : LOST;
}
int nvmlDeviceGetUUID(device *one, char *text, unsigned size) { snprintf(text, size, "%s", one->uuid); return OK; }
int nvmlDeviceGetName(device *one, char *text, unsigned size) { snprintf(text, size, "%s", one->name); return OK; }
int nvmlDeviceGetPciInfo_v3(device *one, void *into) {
  struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } *info = into;
  memset(info, 0, sizeof *info);
  snprintf(info->text, sizeof info->text, "%s", one->bus);
  return OK;
}
int nvmlDeviceGetMemoryInfo_v2(device *one, void *into) {
  struct { unsigned version; bytes total, reserved, free, used; } *info = into;
  info->total = one->total << 20, info->used = one->used << 20, info->reserved = 0;
  info->free = info->total - info->used;
  return answers(one);
}
int nvmlDeviceGetMigMode(device *one, unsigned *now, unsigned *next) {
  *now = *next = one->slices > 0;
  return one->slices ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(device *one, unsigned *count) { *count = 7; return answers(one); }
int nvmlDeviceGetMigDeviceHandleByIndex(device *one, unsigned number, device **found) {
  *found = &devices[one->first_slice + number];
  return number < (unsigned)one->slices ? OK : NOT_FOUND;
}
int nvmlDeviceGetAttributes_v2(device *one, void *into) {
  struct { unsigned processors, copy, decoders, encoders, jpeg, ofa, slices, compute; bytes memory_mib; } *told = into;
  memset(told, 0, sizeof *told);
  told->slices = told->compute = one->slices, told->memory_mib = one->total;
  return one->is_slice ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetP2PStatus(device *one, device *other, int kind, int *status) {
  *status = kind == 2 && one->island && one->island == other->island ? 0 : 5;
  return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(device *one, device *other, int *level) {
  *level = one->pci_switch && one->pci_switch == other->pci_switch ? 10 : 50;
  return OK;
}
