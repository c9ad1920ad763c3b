/* Values of a template from text. */
#include <string.h>

#include "template.h"

spt_status spt_template_operand(const spt_template *t, const char *text,
                                spt_config *config, spt_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return spt_fail(err, SPT_E_USAGE, "%.60s: expected NAME=VALUE", text);
    for (int i = 0; i < t->n_fields; i++) {
        const spt_field *f = &t->fields[i];
        if (strlen(f->name) != (size_t)(equals - text) ||
            strncmp(f->name, text, (size_t)(equals - text)) != 0)
            continue;
        if (spt_config_get(config, f->name))
            return spt_fail(err, SPT_E_USAGE, "%s: is given twice", f->name);
        SPT_TRY(spt_field_parse(f, equals + 1, &config->values[config->count],
                                err));
        config->count++;
        return SPT_OK;
    }
    return spt_fail(err, SPT_E_USAGE,
                    "%.60s: %s has no parameter of that name (spectune emit "
                    "%s --list shows them)",
                    text, t->name, t->name);
}
