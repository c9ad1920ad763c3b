#include "offer.h"

#include <string.h>

#include "mem.h"

enum { BASE_ATTENTION, BASE_COMBINE, COMBINE, OTHERS };

void spt_offer_config(const spt_problem *problem, int chunk, spt_config *config)
{
    *config = (spt_config){0};
    spt_config_set_int(config, "group", problem->q_heads / problem->kv_heads);
    spt_config_set_int(config, "head_dim", problem->head_dim);
    spt_config_set_string(config, "dtype", spt_half_name(problem->dtype));
    spt_config_set_int(config, "page_size", problem->page_size);
    spt_config_set_bool(config, "tree", problem->tree);
    spt_config_set_bool(config, "window", problem->window > 0);
    spt_config_set_bool(config, "softcap", problem->softcap > 0);
    spt_config_set_int(config, "chunk", chunk);
}

static void combine_config(const spt_problem *problem, int chunk, bool tree,
                           spt_config *config)
{
    *config = (spt_config){0};
    spt_config_set_int(config, "group", problem->q_heads / problem->kv_heads);
    spt_config_set_int(config, "head_dim", problem->head_dim);
    spt_config_set_string(config, "dtype", spt_half_name(problem->dtype));
    spt_config_set_bool(config, "tree", tree);
    spt_config_set_bool(config, "window", problem->window > 0);
    spt_config_set_bool(config, "sinks", problem->sinks);
    spt_config_set_int(config, "chunk", chunk);
}

static bool same_tile(const spt_config *a, const spt_config *b)
{
    return spt_config_int(a, "rows", 0) == spt_config_int(b, "rows", 0) &&
           spt_config_int(a, "row_warps", 0) ==
               spt_config_int(b, "row_warps", 0);
}

/* Of the configs of each tile one is kept: the first, the second, ... */
static size_t one_per_tile(spt_config *configs, size_t count)
{
    size_t kept = 0, tile = 0;
    for (size_t first = 0, end; first < count; first = end, tile++) {
        end = first + 1;
        while (end < count && same_tile(&configs[first], &configs[end]))
            end++;
        configs[kept++] = configs[first + tile % (end - first)];
    }
    return kept;
}

spt_status spt_offer_space(const spt_builder *builder,
                           const spt_problem *problem, int chunk, bool every,
                           spt_config **configs, size_t *count, spt_error *err)
{
    spt_config fixed;
    spt_offer_config(problem, chunk, &fixed);
    SPT_TRY(spt_gen_space(builder->gen, "verify_attention", &fixed,
                          builder->board, configs, count, err));
    if (!every)
        *count = one_per_tile(*configs, *count);
    return SPT_OK;
}

/* The smallest config of the key's chain over contiguous KV. */
static spt_status base_config(const spt_builder *builder,
                              const spt_problem *problem, int chunk,
                              spt_config *config, spt_error *err)
{
    spt_problem plain = *problem;
    plain.tree = false;
    plain.page_size = 0;
    spt_config *configs;
    size_t count;
    SPT_TRY(
        spt_offer_space(builder, &plain, chunk, false, &configs, &count, err));
    *config = configs[0];
    spt_free(configs);
    return SPT_OK;
}

static void drop_spilled(spt_offer *offer)
{
    size_t kept = 0;
    for (size_t i = 0; i < offer->count; i++)
        if (offer->attention[i].image.spill_bytes)
            spt_built_free(&offer->attention[i]);
        else
            offer->attention[kept++] = offer->attention[i];
    offer->spilled = offer->count - kept;
    offer->count = kept;
}

spt_status spt_offer_build(const spt_builder *builder,
                           const spt_problem *problem, int chunk,
                           const spt_config *configs, size_t count,
                           spt_offer *offer, spt_error *err)
{
    *offer = (spt_offer){0};
    spt_build_item *items = spt_calloc(OTHERS + count, sizeof *items);
    spt_built *built = spt_calloc(OTHERS + count, sizeof *built);
    spt_status status = SPT_OK;
    if (!items || !built)
        status = spt_fail(err, SPT_E_MEMORY, "offer: out of memory");
    if (status == SPT_OK) {
        for (int i = 0; i < OTHERS; i++)
            items[i].template_name =
                i == BASE_ATTENTION ? "verify_attention" : "combine";
        combine_config(problem, chunk, false, &items[BASE_COMBINE].config);
        combine_config(problem, chunk, problem->tree, &items[COMBINE].config);
        for (size_t i = 0; i < count; i++)
            items[OTHERS + i] =
                (spt_build_item){"verify_attention", configs[i]};
        status = base_config(builder, problem, chunk,
                             &items[BASE_ATTENTION].config, err);
    }
    if (status == SPT_OK)
        status = spt_build(builder, items, OTHERS + count, built, err);
    spt_free(items);
    if (status != SPT_OK) {
        spt_free(built);
        return status;
    }
    offer->base_attention = built[BASE_ATTENTION];
    offer->base_combine = built[BASE_COMBINE];
    offer->combine = built[COMBINE];
    memmove(built, built + OTHERS, count * sizeof *built);
    offer->attention = built;
    offer->count = count;
    drop_spilled(offer);
    return SPT_OK;
}

void spt_offer_free(spt_offer *offer)
{
    for (size_t i = 0; i < offer->count; i++)
        spt_built_free(&offer->attention[i]);
    spt_free(offer->attention);
    spt_built_free(&offer->combine);
    spt_built_free(&offer->base_attention);
    spt_built_free(&offer->base_combine);
    *offer = (spt_offer){0};
}
