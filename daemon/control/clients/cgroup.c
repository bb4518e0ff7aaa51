#include "control/clients/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void cgroup_of(pid_t pid, char cgroup[CGROUP_BYTES])
{
    char path[64], line[CGROUP_BYTES];
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    snprintf(cgroup, CGROUP_BYTES, "?");
    FILE *file = fopen(path, "re");
    /* Lines are "number:controllers:path"; that of version 2 has number 0 and no controllers. */
    while (file && fgets(line, sizeof(line), file)) {
        const char *second = strchr(line, ':');
        const char *where = second ? strchr(second + 1, ':') : NULL;
        line[strcspn(line, "\n")] = '\0';
        bool is_version_2 = strncmp(line, "0::", 3) == 0;
        if (where && (is_version_2 || strcmp(cgroup, "?") == 0))
            snprintf(cgroup, CGROUP_BYTES, "%s", where + 1);
    }
    if (file)
        fclose(file);
}
