/* A profiler in small: prints the ranges that a program begins and ends. Without the header of NVTX there is
 * nothing to print. */
#if __has_include(<nvtx3/nvToolsExt.h>)

#include <nvtx3/nvToolsExt.h>

#include <stdio.h>

static int push(const char *name)
{
    fprintf(stderr, "range %s\n", name);
    return 0;
}

static int pop(void)
{
    fprintf(stderr, "range ends\n");
    return 0;
}

/* What NVTX calls when it has loaded this library. */
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable functions;
    unsigned int count = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &count) ||
        count <= NVTX_CBID_CORE_RangePop)
        return 0;
    *functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}

#endif
