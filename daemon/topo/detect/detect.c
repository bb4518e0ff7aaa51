#include "topo/detect/detect.h"

#include "topo/detect/detect_build.h"
#include "topo/detect/detect_read.h"

blink_result_t topo_detect(const detect_sources_t *sources, topo_t **topo)
{
    const char *sysfs = sources->sysfs ? sources->sysfs : "/sys";
    detect_facts_t facts = {0};
    blink_result_t result = detect_read_hwloc(sources->hwloc_xml, sysfs, &facts);
    if (result == BLINK_OK)
        result = detect_read_nvml(sources->nvml ? sources->nvml : "libnvidia-ml.so.1", &facts);
    if (result == BLINK_OK)
        result = detect_read_verbs(sysfs, &facts);
    if (result == BLINK_OK)
        result = detect_build(&facts, topo);
    detect_facts_release(&facts);
    return result;
}
