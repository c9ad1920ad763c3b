/*
 * cuGetProcAddress: calls by name and by the CUDA version that the program
 * was written for.
 */
#include "sim_driver.h"

#include <string.h>

/* A call that sim has. */
typedef struct symbol {
    const char *name, *versioned; /* cuMemAlloc, cuMemAlloc_v2 */
    void (*call)(void);
} symbol;

static const symbol symbols[] = {
#define SIM_TEXT(name) #name
#define SPT_DRIVER_CALL_ROW(plain, name) \
    {plain, SIM_TEXT(name), (void (*)(void))SIM_FN(name)},
#define SPT_DRIVER_CALL(name) SPT_DRIVER_CALL_ROW(#name, name)
#include "driver.def"
#undef SPT_DRIVER_CALL
};

static const struct {
    const char *name;
    int since, first, until;
} versions[] = {
#define SIM_VERSION(name, since, first, until) {#name, since, first, until},
#include "sim_versions.def"
#undef SIM_VERSION
};

static const symbol *find(const char *name)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (!strcmp(name, symbols[i].name) ||
            !strcmp(name, symbols[i].versioned))
            return &symbols[i];
    return NULL;
}

/* Whether the form that sim has is the one of that version. A name that says
   its version itself is taken at its word. */
static CUdriverProcAddressQueryResult suits(const symbol *found,
                                            const char *name, int version)
{
    size_t i = 0, count = sizeof(versions) / sizeof(versions[0]);
    if (strcmp(name, found->name))
        return CU_GET_PROC_ADDRESS_SUCCESS;
    while (i < count && strcmp(name, versions[i].name))
        i++;
    if (i == count || (version >= versions[i].since &&
                       (!versions[i].until || version < versions[i].until)))
        return CU_GET_PROC_ADDRESS_SUCCESS;
    if (version < versions[i].first)
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    sim_lacks(name, "its form of that CUDA version");
    return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

CUresult SIM_FN(cuGetProcAddress)(const char *name, void **address, int version,
                                  cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
    (void)flags;
    if (!name || !address)
        return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SUCCESS;
    const symbol *found = find(name);
    *address = NULL;
    if (found) {
        result = suits(found, name, version);
        if (result == CU_GET_PROC_ADDRESS_SUCCESS)
            memcpy(address, &found->call, sizeof(*address));
    } else {
        *address = sim_find_hook ? sim_find_hook(name) : NULL;
        if (!*address)
            result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    if (status)
        *status = result;
    return *address || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
