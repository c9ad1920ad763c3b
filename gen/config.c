#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gen.h"

static spt_value *slot(spt_config *config, const char *name,
                       spt_value_type type)
{
    spt_value *value = NULL;
    for (int i = 0; i < config->count && !value; i++)
        if (strcmp(config->values[i].name, name) == 0)
            value = &config->values[i];
    if (!value && config->count < SPT_CONFIG_MAX)
        value = &config->values[config->count++];
    if (!value)
        return NULL;
    memset(value, 0, sizeof *value);
    snprintf(value->name, sizeof value->name, "%s", name);
    value->type = type;
    return value;
}

void spt_config_set_int(spt_config *config, const char *name, int64_t value)
{
    spt_value *v = slot(config, name, SPT_VALUE_INT);
    if (v)
        v->integer = value;
}

void spt_config_set_bool(spt_config *config, const char *name, bool value)
{
    spt_value *v = slot(config, name, SPT_VALUE_BOOL);
    if (v)
        v->integer = value;
}

void spt_config_set_number(spt_config *config, const char *name, double value)
{
    spt_value *v = slot(config, name, SPT_VALUE_NUMBER);
    if (v)
        v->number = value;
}

void spt_config_set_string(spt_config *config, const char *name,
                           const char *value)
{
    spt_value *v = slot(config, name, SPT_VALUE_STRING);
    if (v)
        snprintf(v->text, sizeof v->text, "%s", value);
}

const spt_value *spt_config_get(const spt_config *config, const char *name)
{
    for (int i = 0; i < config->count; i++)
        if (strcmp(config->values[i].name, name) == 0)
            return &config->values[i];
    return NULL;
}

int64_t spt_config_int(const spt_config *config, const char *name,
                       int64_t fallback)
{
    const spt_value *v = spt_config_get(config, name);
    return v && (v->type == SPT_VALUE_INT || v->type == SPT_VALUE_BOOL)
               ? v->integer
               : fallback;
}

void spt_value_text(const spt_value *value, char *text, size_t size)
{
    switch (value->type) {
    case SPT_VALUE_INT:
        snprintf(text, size, "%lld", (long long)value->integer);
        break;
    case SPT_VALUE_BOOL:
        snprintf(text, size, "%s", value->integer ? "true" : "false");
        break;
    case SPT_VALUE_NUMBER:
        snprintf(text, size, "%.17g", value->number);
        break;
    case SPT_VALUE_STRING:
        snprintf(text, size, "%s", value->text);
        break;
    }
}
