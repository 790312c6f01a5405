/* What device_*.c, tape.c and vulkan.c share: Vulkan's functions, found at run time, and what
 * stands behind struct device. Included by these files alone, and of use only where Vulkan's
 * headers are. */
#ifndef GPU_VULKAN_H
#define GPU_VULKAN_H

#include "gpu/device.h"

#ifdef HAVE_VULKAN

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#ifndef VK_KHR_cooperative_matrix /* headers older than 1.3.255 */
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
enum {
    VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR = 1000506000,
    VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = 1000506001,
};
typedef enum {
    VK_COMPONENT_TYPE_SINT8_KHR = 3,
    VK_COMPONENT_TYPE_SINT32_KHR = 5
} VkComponentTypeKHR;
typedef enum { VK_SCOPE_SUBGROUP_KHR = 3 } VkScopeKHR;
typedef struct {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
typedef struct {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    VkComponentTypeKHR AType, BType, CType, ResultType;
    VkBool32 saturatingAccumulation;
    VkScopeKHR scope;
} VkCooperativeMatrixPropertiesKHR;
typedef VkResult(VKAPI_PTR *PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)(
    VkPhysicalDevice, uint32_t *, VkCooperativeMatrixPropertiesKHR *);
#endif

#define VULKAN_GLOBAL(X)                                                                           \
    X(EnumerateInstanceVersion) X(EnumerateInstanceLayerProperties) X(CreateInstance)

#define VULKAN_INSTANCE(X)                                                                         \
    X(EnumeratePhysicalDevices)                                                                    \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceMemoryProperties2)                                                          \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(CreateDevice)                                                                                \
    X(GetDeviceProcAddr)

#define VULKAN_DEVICE(X)                                                                           \
    X(DestroyDevice)                                                                               \
    X(GetDeviceQueue)                                                                              \
    X(CreateSemaphore)                                                                             \
    X(DestroySemaphore)                                                                            \
    X(GetSemaphoreCounterValue)                                                                    \
    X(WaitSemaphores)                                                                              \
    X(SignalSemaphore)                                                                             \
    X(QueueSubmit2)                                                                                \
    X(CreateBuffer)                                                                                \
    X(DestroyBuffer)                                                                               \
    X(GetBufferMemoryRequirements)                                                                 \
    X(GetBufferDeviceAddress)                                                                      \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(BindBufferMemory)                                                                            \
    X(MapMemory)                                                                                   \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreatePipelineLayout)                                                                        \
    X(DestroyPipelineLayout)                                                                       \
    X(CreatePipelineCache)                                                                         \
    X(DestroyPipelineCache)                                                                        \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)                                                                             \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(AllocateCommandBuffers)                                                                      \
    X(FreeCommandBuffers)                                                                          \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(CmdBindPipeline)                                                                             \
    X(CmdPushConstants)                                                                            \
    X(CmdDispatch)                                                                                 \
    X(CmdPipelineBarrier2)                                                                         \
    X(CmdCopyBuffer)                                                                               \
    X(CreateQueryPool)                                                                             \
    X(DestroyQueryPool)                                                                            \
    X(CmdResetQueryPool)                                                                           \
    X(CmdWriteTimestamp2)                                                                          \
    X(GetQueryPoolResults)

struct vulkan {
    PFN_vkGetInstanceProcAddr find;
    VkInstance instance; /* the process's */
    VkDebugUtilsMessengerEXT messenger;
    struct device_complaints complaints;
    PFN_vkGetMemoryHostPointerPropertiesEXT host_pointer;           /* of the device, or NULL */
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR matrices; /* or NULL */
#define X(name) PFN_vk##name name;
    VULKAN_GLOBAL(X) VULKAN_INSTANCE(X) VULKAN_DEVICE(X)
#undef X
};

/* Loads the library and makes an instance, the first time; both stay until the process ends.
 * E_UNSUPPORTED: no loader, no driver, or too old; the next call looks again. v stays where it is
 * until vulkan_close, which zeros are fine for. Any thread. */
int vulkan_open(struct vulkan *v, struct err *e);
int vulkan_find_device(struct vulkan *v, VkDevice device, struct err *e);
void vulkan_close(struct vulkan *v);
const char *vulkan_says(VkResult r); /* "out of device memory", ... */

/* --- device_list.c --- */

/* The features that a device is asked for, in the chain that vkCreateDevice takes. */
struct features {
    VkPhysicalDeviceFeatures2 base;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceVulkan13Features v13;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix;
};
/* Chains the parts of *f, cooperative matrices too if `matrix`; the rest of them is zeros. */
void features_init(struct features *f, bool matrix);

struct found {
    VkPhysicalDevice handle;
    uint32_t family;       /* of queues that run kernels */
    uint32_t copy_family;  /* of queues that only copy, if info.copy_queue; else the same */
    bool budget;           /* VK_EXT_memory_budget */
    uint64_t buffer_bytes; /* the most that a buffer can have */
    struct device_info info;
};
/* Best first. */
int found_list(struct vulkan *v, struct found out[DEVICES_MAX], int *n, struct err *e);
/* The index that `which` of device_pick means. */
int found_pick(const struct found *all, int n, const char *which, int *index, struct err *e);
/* What every kernel needs, and what it may use where `has` has it, switched on in *on. */
void features_wanted(const struct features *has, struct features *on);
uint64_t found_free_bytes(const struct vulkan *v, const struct found *f);

/* --- device.c --- */

/* Failures made for tests, counted down by CHERENKOV_DEVICE_FAULT=NAME:N,...: the Nth and all
 * after it. */
enum device_fault { FAULT_MEMORY, FAULT_KERNEL, FAULT_LOST, FAULT_LATE, FAULT_COUNT };
bool device_fault(struct device *d, enum device_fault f);

enum { KERNEL_BUCKETS = 256 };

/* What was started on a queue, by values that ascend by one. */
struct timeline {
    VkSemaphore semaphore;
    uint64_t started; /* the last value that was given away */
    uint64_t reached; /* the last that was seen to have ended */
};

struct device {
    struct vulkan vk;
    struct found found;
    VkDevice handle;
    VkQueue queue, copy_queue; /* the same where there is one alone */
    VkPhysicalDeviceMemoryProperties memory;
    struct timeline tapes, copies;
    VkSemaphore go;    /* a timeline too: what the host released */
    uint64_t promised; /* the largest value that a submission waits for on `go` */
    uint64_t released;
    uint64_t awaited, seen; /* copies that the next tape waits for, that an earlier one did */
    VkCommandPool pool;
    VkPipelineLayout layout;
    VkPipelineCache cache;
    struct kernel *kernels[KERNEL_BUCKETS]; /* by kernel_hash */
    struct upload *upload;                  /* of device_upload.c, made at the first need */
    struct copies *beside;                  /* of device_copy.c */
    struct times *times;                    /* of times.c; NULL: not asked for */
    uint64_t patience_ns, spin_ns;
    long fault[FAULT_COUNT];
    struct err failed; /* the first failure after which nothing works */
    bool stuck;        /* something still runs: what it uses must not be freed */
};

/* The end of a device: keeps the message, lets what waits for the host run out, waits a while for
 * it. Evaluates to the error. */
int device_give_up(struct device *d, VkResult r, const char *doing, struct err *e);
/* A result of a call that is not VK_SUCCESS as an error: E_NOMEM, a lost device, or E_IO. */
int device_failed(struct device *d, VkResult r, const char *doing, struct err *e);
/* 0, or the error of a device that was given up. */
int device_check(const struct device *d, struct err *e);
static inline VkSemaphoreSubmitInfo timeline_point(VkSemaphore timeline, uint64_t value)
{
    return (VkSemaphoreSubmitInfo){.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
                                   .semaphore = timeline,
                                   .value = value,
                                   .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT};
}
bool timeline_done(struct device *d, struct timeline *t, uint64_t value);
int timeline_wait(struct device *d, struct timeline *t, uint64_t value, struct err *e);

/* --- the others --- */

struct kernel {
    struct kernel *next;
    const char *name;
    VkPipeline pipeline;
    int n;
    uint32_t constants[];
};
void kernel_free_all(struct device *d);
void upload_close(struct device *d);
VkResult copies_open(struct device *d);
void copies_close(struct device *d);

struct device_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
};

struct tape {
    struct device *d;
    VkCommandBuffer commands;
    VkQueryPool stamps;
    int n_stamps, stamps_max;
    const struct kernel *bound;
    struct stages *stages; /* of times.c; NULL: not asked for */
    uint64_t value;        /* of its last submission */
    struct err failed;
};

/* --- times.c: CHERENKOV_DEVICE_TIMES; without it all of these do nothing --- */

int times_open(struct device *d, struct err *e);
void times_close(struct device *d); /* says what was gathered; before the device goes */
void times_open_tape(struct tape *t);
void times_close_tape(struct tape *t);
void times_begin(struct tape *t); /* the tape is being recorded from here on */
void times_dispatch(struct tape *t, const struct kernel *k, struct grid g);
void times_barrier(struct tape *t);
void times_end(struct tape *t);
void times_collect(struct tape *t); /* of its last run, before it runs again */

/* Code of the kernels, made from src/gpu/NAME.comp by the Makefile; ends with a name NULL. */
struct kernel_code {
    const char *name;
    const uint32_t *words;
    size_t bytes;
};
extern const struct kernel_code kernel_codes[];

#endif
#endif
