/* Text to tokens and back, chats. */
#include <string.h>

#include "chat.h"
#include "mem.h"
#include "session_int.h"

spt_status spt_engine_encode(const spt_engine *e, const char *text, size_t size,
                             bool begin, bool specials, int32_t *tokens,
                             size_t room, size_t *count, spt_error *err)
{
    spt_ids ids = {0};
    const spt_encode_options options = {.specials = specials, .begin = begin};
    spt_status status =
        spt_tokenizer_encode(e->tokenizer, text, size, options, &ids, err);
    if (status == SPT_OK && ids.failed)
        status = spt_fail(err, SPT_E_MEMORY, "encode: out of memory");
    if (status == SPT_OK) {
        size_t fit = ids.size < room ? ids.size : room;
        if (fit)
            memcpy(tokens, ids.data, fit * sizeof *tokens);
        *count = ids.size;
    }
    spt_ids_free(&ids);
    return status;
}

/* Hands a built text out and frees it. */
static spt_status give_text(spt_buf *built, char *text, size_t room,
                            size_t *size, spt_error *err)
{
    bool failed = built->failed;
    if (!failed) {
        size_t fit = built->size < room ? built->size : room;
        if (fit)
            memcpy(text, built->data, fit);
        *size = built->size;
    }
    spt_buf_free(built);
    return failed ? spt_fail(err, SPT_E_MEMORY, "text: out of memory") : SPT_OK;
}

spt_status spt_engine_decode(const spt_engine *e, const int32_t *tokens,
                             size_t count, char *text, size_t room,
                             size_t *size, spt_error *err)
{
    spt_buf built = {0};
    int known = spt_tokenizer_size(e->tokenizer);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= known)
            return spt_fail(err, SPT_E_USAGE,
                            "decode: token %zu is %d, expected 0 to %d", i,
                            (int)tokens[i], known - 1);
    spt_tokenizer_decode(e->tokenizer, tokens, count, false, &built);
    return give_text(&built, text, room, size, err);
}

spt_status spt_engine_chat(const spt_engine *e,
                           const spt_chat_message *messages, size_t count,
                           char *text, size_t room, size_t *size,
                           spt_error *err)
{
    spt_buf built = {0};
    spt_message *copies = spt_calloc(count + 1, sizeof *copies);
    if (!copies)
        return spt_fail(err, SPT_E_MEMORY, "chat: out of memory");
    for (size_t i = 0; i < count; i++)
        copies[i] = (spt_message){messages[i].role, messages[i].content};
    spt_status status =
        spt_chat_text(e->tokenizer, copies, count, true, &built, err);
    spt_free(copies);
    if (status != SPT_OK) {
        spt_buf_free(&built);
        return status;
    }
    return give_text(&built, text, room, size, err);
}
