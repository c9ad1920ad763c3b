/*
 * A template's descriptor as C sees it, and what is asked of it for one set
 * of values. Functions that take a lua_State run inside spt_lua_run.
 */
#ifndef SPT_TEMPLATE_H
#define SPT_TEMPLATE_H

#include "gen.h"
#include "lua_host.h"

enum { SPT_FIELD_VALUES = 64 };

/* One entry of problem or params. */
typedef struct spt_field {
    char name[24];
    spt_value_type type;
    bool is_param; /* how, not what */
    bool has_default, bounded;
    spt_value fallback;
    double min, max;
    int n_values;
    spt_value *values;
    const char *doc;
} spt_field;

typedef struct spt_template {
    char name[32];
    char file[64]; /* templates/NAME.lua */
    char body[64]; /* templates/NAME.cu */
    const char *title;
    spt_field fields[SPT_CONFIG_MAX]; /* problem, then params */
    int n_fields;
    int n_constraints;
    struct spt_template *next;
} spt_template;

/* The templates that were read; freed with the spt_gen. */
typedef struct spt_templates {
    spt_arena arena;
    spt_template *first;
} spt_templates;

/* Reads and checks a descriptor at its first use; SPT_E_USAGE. */
const spt_template *spt_template_find(lua_State *L, spt_templates *known,
                                      const char *name);

/* Descriptor of a template, for commands that show it. */
spt_status spt_gen_template(spt_gen *gen, const char *name,
                            const spt_template **out, spt_error *err);

/* Names of the templates that can be emitted, as spt_lua_list gives them. */
spt_status spt_gen_template_names(spt_gen *gen, char **names, size_t *count,
                                  spt_error *err);

/*
 * The value of a field from the text of "name=value"; SPT_E_USAGE when it is
 * no value of the field's type.
 */
spt_status spt_field_parse(const spt_field *field, const char *text,
                           spt_value *value, spt_error *err);

/*
 * Adds the value of "name=value" to config; SPT_E_USAGE when the template has
 * no such name, when it is there already, or when it is no value of its type.
 */
spt_status spt_template_operand(const spt_template *t, const char *text,
                                spt_config *config, spt_error *err);

/* The value of the field in config, or NULL; SPT_E_USAGE when it is wrong. */
const spt_value *spt_field_take(lua_State *L, const spt_template *t,
                                const spt_field *field,
                                const spt_config *config);

/* "8, 16, 24" or "0 to 65536": what a field takes. */
void spt_field_values(const spt_field *field, char *text, size_t size);

void spt_value_push(lua_State *L, const spt_value *value);

/* Raises SPT_E_USAGE for a name of config that is no field. */
void spt_template_check_names(lua_State *L, const spt_template *t,
                              const spt_config *config);

/* "name=value name=value ..." of full values. */
void spt_config_text(const spt_config *full, char *text, size_t size);

/* Pushes p: the values by their names; unknown names raise. */
void spt_template_push_values(lua_State *L, const spt_config *full);

/* The text of the first constraint that p and b (indices) break, or NULL. */
const char *spt_template_broken(lua_State *L, const spt_template *t, int p,
                                int b);

/*
 * Calls the descriptor's function of that name with p and b and leaves its
 * one result, which must have the Lua type, on the stack.
 */
void spt_template_call(lua_State *L, const spt_template *t, const char *name,
                       int p, int b, int type);

/* Raises "file:line: text" at the line where the keys are written. */
int spt_template_fail(lua_State *L, const spt_template *t, const char *key,
                      const char *sub, const char *fmt, ...) SPT_PRINTF(5, 6);

#endif
