/*
 * Chats as text: the model's own template applied to messages.
 */
#ifndef SPT_CHAT_H
#define SPT_CHAT_H

#include <cJSON.h>

#include "tokenizer.h"

typedef struct spt_message {
    const char *role; /* system, user, assistant */
    const char *content;
} spt_message;

/*
 * Appends the text of the messages as the tokenizer's template writes it.
 * answer: end with what begins the assistant's turn. The text is to be encoded
 * with specials and without `begin`. A model without a template, and a
 * template that uses what is not understood, is SPT_E_UNSUPPORTED.
 */
spt_status spt_chat_text(const spt_tokenizer *tokenizer,
                         const spt_message *messages, size_t count, bool answer,
                         spt_buf *text, spt_error *err);

/* The same with messages as OpenAI's API has them: an array of objects. */
spt_status spt_chat_json(const spt_tokenizer *tokenizer, const cJSON *messages,
                         bool answer, spt_buf *text, spt_error *err);

#endif
