/* Elements of NCCL's topology XML and their attributes. */
#include "topo/read/xml_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUSID_MAX 32

bool xml_is(const xmlNode *node, const char *name)
{
    return node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
}

const xmlNode *xml_child(const xmlNode *parent, const char *name)
{
    for (const xmlNode *child = parent->children; child; child = child->next) {
        if (xml_is(child, name))
            return child;
    }
    return NULL;
}

bool xml_contains(const xmlNode *parent, const char *name)
{
    for (const xmlNode *child = parent->children; child; child = child->next) {
        if (xml_is(child, name) || (child->type == XML_ELEMENT_NODE && xml_contains(child, name)))
            return true;
    }
    return false;
}

/* Without a document type there are no entities, so a value is one text node. */
const char *xml_text(const xmlNode *element, const char *name)
{
    const xmlAttr *attribute = xmlHasProp(element, (const xmlChar *)name);
    if (!attribute)
        return NULL;
    const xmlNode *value = attribute->children;
    return value && value->type == XML_TEXT_NODE && value->content ? (const char *)value->content : "";
}

blink_result_t xml_integer(const xml_reader_t *reader, const xmlNode *element, const char *name, long low,
                           long high, long *value)
{
    const char *text = xml_text(element, name);
    if (!text)
        return FAIL_XML(reader, element, "has no %s", name);
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    if (end == text || *end || errno || *value < low || *value > high)
        return FAIL_XML(reader, element, "%s must be an integer from %ld to %ld, not \"%.24s\"", name, low,
                        high, text);
    return BLINK_OK;
}

blink_result_t xml_integer_or(const xml_reader_t *reader, const xmlNode *element, const char *name, long low,
                              long high, long otherwise, long *value)
{
    *value = otherwise;
    return xml_text(element, name) ? xml_integer(reader, element, name, low, high, value) : BLINK_OK;
}

blink_result_t xml_busid(const xml_reader_t *reader, const xmlNode *pci, const char **busid)
{
    *busid = xml_text(pci, "busid");
    if (!*busid || !**busid)
        return FAIL_XML(reader, pci, "has no busid");
    if (strlen(*busid) > BUSID_MAX)
        return FAIL_XML(reader, pci, "busid is longer than %d characters: " TOPO_SHOWN, BUSID_MAX, *busid);
    return BLINK_OK;
}
