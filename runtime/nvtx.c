/* The part of NVTX version 3's interface to tools that push and pop need: a tool's library exports InitializeInjectionNvtx2 and
 * is given a function by which it asks for tables. A table is an array of addresses of function pointers, in the order of
 * NVTX's callback ids; the tool stores its functions there. */
#include "runtime/nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DOMAIN "grs"

/* ---------------------------------------------------------------- NVTX's declarations, our names ---------------- */

enum { NVTX_VERSION_3 = 3, MESSAGE_ASCII = 1 };
enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3 };
enum { MODULE_CORE = 1, MODULE_CUDA, MODULE_OPENCL, MODULE_CUDART, MODULE_CORE2, MODULE_SYNC, MODULE_COUNT };
enum { CORE_PUSH_A = 9, CORE_POP = 11, CORE2_PUSH_EX = 4, CORE2_POP = 5, CORE2_DOMAIN_CREATE_A = 12 };
enum { MOST_FUNCTIONS = 16 }; /* of a module, the unused id 0 among them */

static const unsigned module_size[MODULE_COUNT] = {[MODULE_CORE] = 16,  [MODULE_CUDA] = 9,   [MODULE_OPENCL] = 15,
                                                   [MODULE_CUDART] = 7, [MODULE_CORE2] = 16, [MODULE_SYNC] = 7};

struct event_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};
_Static_assert(sizeof(struct event_attributes) == 48 && offsetof(struct event_attributes, message) == 40,
               "nvtxEventAttributes_v2 has another layout");

typedef void function(void);
typedef int push_a(const char *message);
typedef int pop(void);
typedef int domain_push(void *domain, const struct event_attributes *attributes);
typedef int domain_pop(void *domain);
typedef void *domain_create(const char *name);
typedef const void *get_export_table(uint32_t id);
typedef int initialize_injection(get_export_table *tables);

struct callbacks {
    size_t size;
    int (*get_module)(int module, function ****table, unsigned *size);
};
struct version_info {
    size_t size;
    uint32_t version, reserved;
    void (*set_version)(uint32_t version);
};

/* ---------------------------------------------------------------- what a tool fills ----------------------------- */

static function *functions[MODULE_COUNT][MOST_FUNCTIONS];
static function **addresses[MODULE_COUNT][MOST_FUNCTIONS + 1]; /* a NULL behind the last */

static int get_module(int module, function ****table, unsigned *size) {
    if (module <= 0 || module >= MODULE_COUNT) {
        return 0;
    }
    for (unsigned i = 1; i < module_size[module]; i++) { /* id 0 is none */
        addresses[module][i] = &functions[module][i];
    }
    if (table != NULL) {
        *table = addresses[module];
    }
    if (size != NULL) {
        *size = module_size[module];
    }
    return 1;
}

static void set_version(uint32_t version) {
    (void)version;
}

static const void *export_table(uint32_t id) {
    static const struct callbacks callbacks = {sizeof(callbacks), get_module};
    static const struct version_info version = {sizeof(version), NVTX_VERSION_3, 0, set_version};
    return id == EXPORT_CALLBACKS ? (const void *)&callbacks : (id == EXPORT_VERSION ? (const void *)&version : NULL);
}

/* ---------------------------------------------------------------- the tool -------------------------------------- */

struct nvtx_tool {
    push_a *push_a;
    pop *pop;
    domain_push *domain_push;
    domain_pop *domain_pop;
    void *domain;
};
static struct nvtx_tool tool;
_Atomic(const struct nvtx_tool *) nvtx_attached;

/* NULL when there is a tool that takes ranges, else why not. */
static const char *attach(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* stays: the tool may have threads of its own */
    if (library == NULL) {
        return dlerror();
    }
    initialize_injection *initialize = (initialize_injection *)dlsym(library, "InitializeInjectionNvtx2");
    if (initialize == NULL || initialize(export_table) == 0) {
        dlclose(library);
        return initialize == NULL ? "it has no InitializeInjectionNvtx2" : "its InitializeInjectionNvtx2 refused";
    }
    domain_create *create = (domain_create *)functions[MODULE_CORE2][CORE2_DOMAIN_CREATE_A];
    tool.domain_push = (domain_push *)functions[MODULE_CORE2][CORE2_PUSH_EX];
    tool.domain_pop = (domain_pop *)functions[MODULE_CORE2][CORE2_POP];
    tool.domain = create != NULL && tool.domain_push != NULL && tool.domain_pop != NULL ? create(DOMAIN) : NULL;
    tool.push_a = (push_a *)functions[MODULE_CORE][CORE_PUSH_A];
    tool.pop = (pop *)functions[MODULE_CORE][CORE_POP];
    return tool.domain == NULL && (tool.push_a == NULL || tool.pop == NULL) ? "it takes no ranges" : NULL;
}

static void look(const struct log *log) {
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    if (path == NULL || path[0] == '\0') {
        return;
    }
    const char *trouble = attach(path);
    if (trouble != NULL) {
        log_write(log, GRS_LOG_DEBUG, "NVTX: no ranges: %s: %s", path, trouble);
        return;
    }
    log_write(log, GRS_LOG_DEBUG, "NVTX: ranges go to %s", path);
    atomic_store_explicit(&nvtx_attached, &tool, memory_order_release);
}

void nvtx_open(const struct log *log) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool sought;
    pthread_mutex_lock(&lock);
    if (!sought) {
        sought = true;
        look(log);
    }
    pthread_mutex_unlock(&lock);
}

void nvtx_push(const char *format, ...) {
    const struct nvtx_tool *to = atomic_load_explicit(&nvtx_attached, memory_order_acquire);
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (to->domain != NULL) {
        const struct event_attributes attributes = {
            .version = NVTX_VERSION_3, .size = sizeof(attributes), .message_type = MESSAGE_ASCII, .message = text};
        to->domain_push(to->domain, &attributes);
    } else {
        to->push_a(text);
    }
}

void nvtx_pop(void) {
    const struct nvtx_tool *to = atomic_load_explicit(&nvtx_attached, memory_order_acquire);
    if (to->domain != NULL) {
        to->domain_pop(to->domain);
    } else {
        to->pop();
    }
}
