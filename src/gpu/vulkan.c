/* Vulkan's loader, found with dlopen, its functions, and an instance; see vulkan.h. */
#include "gpu/vulkan.h"

#ifdef HAVE_VULKAN

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"

static const char layer_name[] = "VK_LAYER_KHRONOS_validation";

/* The library and its instance are the process's, from the first device to the end. A driver goes
 * with the last instance and is loaded again for the next, and NVIDIA's can be loaded 25 times:
 * then there is no static thread-local storage left for it. */
static struct {
    pthread_mutex_t mutex;
    void *library;
    VkInstance instance;
    bool watched; /* by the validation layer */
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int load(struct vulkan *v, struct err *e)
{
    static const char *const names[] = {"libvulkan.so.1", "libvulkan.so", "libvulkan.1.dylib",
                                        "libMoltenVK.dylib"};
    for (size_t i = 0; !shared.library && i < sizeof names / sizeof names[0]; i++)
        shared.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!shared.library)
        return ERR(e, E_UNSUPPORTED,
                   "there is no Vulkan on this machine (%s is not found); install the driver of "
                   "the GPU and the Vulkan loader (Debian: libvulkan1)",
                   names[0]);
    void *find = dlsym(shared.library, "vkGetInstanceProcAddr");
    memcpy(&v->find, &find, sizeof find);
    if (!v->find)
        return ERR(e, E_UNSUPPORTED, "%s: no vkGetInstanceProcAddr in it", names[0]);
#define X(name) v->name = (PFN_vk##name)v->find(NULL, "vk" #name);
    VULKAN_GLOBAL(X)
#undef X
    uint32_t version = 0;
    if (!v->EnumerateInstanceVersion || v->EnumerateInstanceVersion(&version) ||
        version < VK_API_VERSION_1_3)
        return ERR(e, E_UNSUPPORTED, "the Vulkan loader of this machine is older than 1.3");
    return 0;
}

static bool has_layer(const struct vulkan *v)
{
    VkLayerProperties all[64];
    uint32_t n = 64;
    if (v->EnumerateInstanceLayerProperties(&n, all) < 0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(all[i].layerName, layer_name) == 0)
            return true;
    return false;
}

/* Vulkan calls this from any call, on its thread. */
static VKAPI_ATTR VkBool32 VKAPI_CALL complain(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                               VkDebugUtilsMessageTypeFlagsEXT types,
                                               const VkDebugUtilsMessengerCallbackDataEXT *data,
                                               void *ctx)
{
    (void)severity;
    struct device_complaints *c = ctx;
    /* The loader's own remarks, on other drivers' files, are none about us. */
    if (!(types & (VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                   VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT)))
        return VK_FALSE;
    if (c->n++ == 0)
        snprintf(c->first, sizeof c->first, "%s", data->pMessage);
    log_say(LOG_WARN, "Vulkan: %s", data->pMessage);
    return VK_FALSE;
}

static int create_instance(struct vulkan *v, struct err *e)
{
    bool watch = env_get(ENV_DEVICE_CHECK) && has_layer(v);
    const char *const layers[] = {layer_name};
    const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "cherenkov",
                             .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                 .pApplicationInfo = &app,
                                 .enabledLayerCount = watch,
                                 .ppEnabledLayerNames = layers,
                                 .enabledExtensionCount = watch,
                                 .ppEnabledExtensionNames = extensions};
    VkResult r = v->CreateInstance(&info, NULL, &shared.instance);
    if (r)
        return ERR(e, E_UNSUPPORTED, "Vulkan does not start: %s; is a driver installed?",
                   vulkan_says(r));
    shared.watched = watch;
    return 0;
}

/* The process's library and instance, made by the first that asks. */
static int share(struct vulkan *v, struct err *e)
{
    pthread_mutex_lock(&shared.mutex);
    int rc = load(v, e);
    if (!rc && !shared.instance)
        rc = create_instance(v, e);
    v->instance = shared.instance;
    v->complaints.watched = shared.watched;
    pthread_mutex_unlock(&shared.mutex);
    return rc;
}

static int find_functions(struct vulkan *v, struct err *e)
{
    const char *missing = NULL;
#define X(name)                                                                                    \
    if (!(v->name = (PFN_vk##name)v->find(v->instance, "vk" #name)))                               \
        missing = #name;
    VULKAN_INSTANCE(X)
#undef X
    v->matrices = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)v->find(
        v->instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    return missing ? ERR(e, E_UNSUPPORTED, "this Vulkan loader has no vk%s", missing) : 0;
}

static int listen(struct vulkan *v, struct err *e)
{
    VkDebugUtilsMessengerCreateInfoEXT info = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT,
        .pfnUserCallback = complain,
        .pUserData = &v->complaints};
    PFN_vkCreateDebugUtilsMessengerEXT create =
        (PFN_vkCreateDebugUtilsMessengerEXT)v->find(v->instance, "vkCreateDebugUtilsMessengerEXT");
    VkResult r = create ? create(v->instance, &info, NULL, &v->messenger) : VK_ERROR_UNKNOWN;
    return r ? ERR(e, E_IO, "the validation layer has no messenger: %s", vulkan_says(r)) : 0;
}

int vulkan_open(struct vulkan *v, struct err *e)
{
    *v = (struct vulkan){0};
    int rc = share(v, e);
    if (!rc)
        rc = find_functions(v, e);
    if (!rc && v->complaints.watched)
        rc = listen(v, e);
    if (rc)
        vulkan_close(v);
    return rc;
}

int vulkan_find_device(struct vulkan *v, VkDevice device, struct err *e)
{
    const char *missing = NULL;
#define X(name)                                                                                    \
    if (!(v->name = (PFN_vk##name)v->GetDeviceProcAddr(device, "vk" #name)))                       \
        missing = #name;
    VULKAN_DEVICE(X)
#undef X
    v->host_pointer = (PFN_vkGetMemoryHostPointerPropertiesEXT)v->GetDeviceProcAddr(
        device, "vkGetMemoryHostPointerPropertiesEXT");
    return missing ? ERR(e, E_UNSUPPORTED, "this Vulkan driver has no vk%s", missing) : 0;
}

void vulkan_close(struct vulkan *v)
{
    if (v->messenger) {
        PFN_vkDestroyDebugUtilsMessengerEXT destroy = (PFN_vkDestroyDebugUtilsMessengerEXT)v->find(
            v->instance, "vkDestroyDebugUtilsMessengerEXT");
        destroy(v->instance, v->messenger, NULL);
    }
    *v = (struct vulkan){0};
}

const char *vulkan_says(VkResult r)
{
    static const struct {
        VkResult code;
        const char *words;
    } all[] = {
        {VK_ERROR_OUT_OF_HOST_MEMORY, "out of host memory"},
        {VK_ERROR_OUT_OF_DEVICE_MEMORY, "out of device memory"},
        {VK_ERROR_INITIALIZATION_FAILED, "initialisation failed"},
        {VK_ERROR_DEVICE_LOST, "the device is lost"},
        {VK_ERROR_MEMORY_MAP_FAILED, "mapping failed"},
        {VK_ERROR_LAYER_NOT_PRESENT, "a layer is missing"},
        {VK_ERROR_EXTENSION_NOT_PRESENT, "an extension is missing"},
        {VK_ERROR_FEATURE_NOT_PRESENT, "a feature is missing"},
        {VK_ERROR_INCOMPATIBLE_DRIVER, "no driver"},
        {VK_ERROR_TOO_MANY_OBJECTS, "too many objects"},
        {VK_ERROR_INVALID_EXTERNAL_HANDLE, "memory that cannot be imported"},
        {VK_TIMEOUT, "no answer in time"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].code == r)
            return all[i].words;
    return "an error without a name";
}

#endif
