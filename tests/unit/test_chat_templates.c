/*
 * Chat templates against jinja2 (tests/fixtures/chat_cases.py), and what is
 * refused.
 *
 *   test_chat_templates [CASES.json]
 */
#include <unistd.h>

#include "chat.h"
#include "check.h"
#include "jinja.h"

static spt_error err;

/* [template or null for the one before, context, text or null]. */
static void test_cases(const char *path)
{
    cJSON *root = NULL;
    const cJSON *row;
    const char *template = NULL;
    int number = 0;
    if (!CHECK_OK(spt_json_read(path, 64 << 20, &root, &err), &err, path))
        return;
    cJSON_ArrayForEach(row, root)
    {
        const char *own = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(row, 2));
        spt_buf out = {0};
        template = own ? own : template;
        spt_status status =
            spt_jinja_render(template, strlen(template), "case",
                             cJSON_GetArrayItem(row, 1), &out, &err);
        if (text && CHECK_OK(status, &err, "a template is rendered"))
            CHECK_TEXT(out.data ? out.data : "", text, "as jinja2 does");
        else if (!text)
            CHECK(status != SPT_OK, "template %d is refused", number);
        if (text && status != SPT_OK)
            printf("#   template of row %d\n", number);
        number++;
        spt_buf_free(&out);
    }
    cJSON_Delete(root);
}

static void test_refused(void)
{
    static const struct {
        const char *template, *says;
    } cases[] = {
        {"a\n{{ 'x' | nosuch }}", "t: line 2: filter 'nosuch' is not known"},
        {"{{ 'x'.nosuch() }}", "method 'nosuch' is not known"},
        {"{{ nosuch() }}", "a call of what is no known function"},
        {"{{ 1 is nosuch }}", "test 'nosuch' is not known"},
        {"{% nosuch %}", "statement 'nosuch' is not known"},
        {"{% if true %}", "'' where 'endif' was expected"},
        {"{% endif %}", "'endif' without what it ends"},
        {"{{ 'x }}", "a string without its end"},
        {"{{ 1", "a tag without its end"},
        {"{# x", "a comment without its end"},
        {"{{ (1 }}", "where ',' was expected"},
        {"{{ 1 2 }}", "'2' where the tag's end was expected"},
        {"{{ 1 ; }}", "a character that no tag has: 0x3B"},
        {"{{ nothing.field }}", "what is undefined has no fields"},
        {"{{ raise_exception('no ' + 'way') }}", "t: no way"},
        {"{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
         "{% endfor %}",
         "t: line 1: "},
        {"{% set x = 'aaaaaaaa' %}{% set n = namespace(x=x) %}"
         "{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
         "more than 64 MiB"},
        {"{{ 1 % 0 }}", "division by zero"},
        {"{{ range(-9999999999, 9999999999) }}", "range() of up to three"},
        {"{% set n = namespace(x=1) %}{% for i in range(99) %}"
         "{% set n.x = [n.x] %}{% endfor %}",
         "values nest deeper than 32"},
    };
    cJSON *context = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spt_buf out = {0};
        CHECK(spt_jinja_render(cases[i].template, strlen(cases[i].template),
                               "t", context, &out, &err) != SPT_OK,
              "template %zu is refused", i);
        CHECK_HAS(err.text, cases[i].says, "and the line says why");
        CHECK(out.size == 0, "and nothing is written");
        spt_buf_free(&out);
    }
    cJSON_Delete(context);
}

static void test_chat(void)
{
    static const char path[] = "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    static const spt_message message = {"user", "Hello"};
    spt_model *model = NULL;
    spt_tokenizer *t = NULL;
    spt_buf text = {0};
    cJSON *context = cJSON_CreateObject();
    CHECK_OK(spt_jinja_render("{% generation %}x{% endgeneration %}", 36, "t",
                              context, &text, &err),
             &err, "marks for training");
    CHECK_TEXT(text.data, "x", "are passed over");
    text.size = 0;
    cJSON_Delete(context);
    if (access(path, R_OK) == 0 &&
        CHECK_OK(spt_model_open(&model, path, &err), &err, "SmolLM2") &&
        CHECK_OK(spt_tokenizer_open(&t, model, &err), &err, "its tokenizer")) {
        CHECK_OK(spt_chat_text(t, &message, 1, true, &text, &err), &err,
                 "a chat");
        CHECK_TEXT(text.data,
                   "<|im_start|>system\nYou are a helpful AI assistant named "
                   "SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>"
                   "user\nHello<|im_end|>\n<|im_start|>assistant\n",
                   "is written as its template has it");
    }
    spt_buf_free(&text);
    spt_tokenizer_close(t);
    spt_model_close(model);
}

int main(int argc, char **argv)
{
    test_cases(argc > 1 ? argv[1] : "tests/fixtures/chat.cases.json");
    if (argc == 1)
        test_refused();
    if (argc == 1)
        test_chat();
    return check_done();
}
