/*
 * What kernels print, and the other functions that CUDA's runtime brings to a
 * module: vprintf, __assertfail, malloc and free.
 */
#include <unistd.h>

#include "check.h"
#include "sim_run.h"

static sim_run run;
static char printed[16384];

static const char externs[] =
    ".version 8.7\n.target sm_90a\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l,"
    " .param .b64 n, .param .b64 s);\n"
    ".extern .func (.param .b64 r) malloc(.param .b64 s);\n"
    ".extern .func free(.param .b64 p);\n";

/* A global string. */
static void add_string(spt_buf *text, const char *name, const char *value)
{
    spt_buf_printf(text, ".global .b8 %s[%zu] = {", name, strlen(value) + 1);
    for (const char *at = value; *at; at++)
        spt_buf_printf(text, "%d, ", *at);
    spt_buf_puts(text, "0};\n");
}

static void add_head(spt_buf *text)
{
    spt_buf_puts(text, externs);
    spt_buf_puts(text, ".visible .entry k(.param .u64 k_p, .param .u64 k_q, "
                       ".param .u64 k_gone, .param .u32 k_n)\n{\n"
                       ".local .align 16 .b8 list[96];\n.reg .b32 %r<8>;\n"
                       ".reg .b64 %d<8>;\n.reg .pred %x<4>;\n"
                       ".param .b64 a0; .param .b64 a1; .param .b32 a2; "
                       ".param .b64 a3; .param .b64 a4;\n.param .b32 r0; "
                       ".param .b64 r1;\nmov.u32 %r0, %tid.x;\n"
                       "mov.u32 %r1, %ctaid.x;\nld.param.u64 %d0, [k_q];\n"
                       "mad.wide.u32 %d1, %r0, 4, %d0;\n");
}

static const char call_print[] =
    "mov.u64 %d2, fmt;\nst.param.b64 [a0], %d2;\nmov.u64 %d3, list;\n"
    "cvta.local.u64 %d3, %d3;\nst.param.b64 [a1], %d3;\n"
    "call (r0), vprintf, (a0, a1);\nld.param.b32 %r2, [r0];\n"
    "st.global.u32 [%d1], %r2;\nret;\n}\n";

/* Runs text and keeps what it wrote to standard output. */
static void capture(spt_buf *text, unsigned blocks, unsigned threads)
{
    FILE *file = tmpfile();
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    if (!file || saved < 0 || dup2(fileno(file), STDOUT_FILENO) < 0)
        return;
    sim_run_module(&run, text->data, blocks, threads);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    size_t size = fread(printed, 1, sizeof printed - 1, file);
    printed[size] = 0;
    fclose(file);
    spt_buf_free(text);
}

/* One thread prints with the format and a list that stores fill. */
static void print(const char *format, const char *stores)
{
    spt_buf text = {0};
    add_string(&text, "fmt", format);
    add_string(&text, "str", "text");
    char *strings = text.data;
    text = (spt_buf){0};
    add_head(&text);
    char *head = text.data;
    char *entry = strstr(head, ".visible");
    text = (spt_buf){0};
    spt_buf_printf(&text, "%.*s%s%s%s%s", (int)(entry - head), head, strings,
                   entry, stores, call_print);
    capture(&text, 1, 1);
    free(head);
    free(strings);
    CHECK(run.result == CUDA_SUCCESS, "a call of vprintf runs");
}

static void expect(const char *text, unsigned count)
{
    CHECK(!strcmp(printed, text), "it prints what the format says");
    if (strcmp(printed, text))
        printf("#   printed \"%s\"\n", printed);
    CHECK(run.out[0] == count, "vprintf gives %u", count);
}

static void test_conversions(void)
{
    print("plain %% 100%\n", "");
    expect("plain % 100%\n", 0);
    print("%d|%5d|%-5d|%05d|%+d", "mov.b32 %r3, -42;\n"
                                  "st.local.b32 [list], %r3;\n"
                                  "st.local.b32 [list+4], %r3;\n"
                                  "st.local.b32 [list+8], %r3;\n"
                                  "st.local.b32 [list+12], %r3;\n"
                                  "st.local.b32 [list+16], 42;\n");
    expect("-42|  -42|-42  |-0042|+42", 5);
    print("%u %x %#X %o %hhd %hu",
          "mov.b32 %r3, 0xfffffff0;\nst.local.b32 [list], %r3;\n"
          "st.local.b32 [list+4], %r3;\nst.local.b32 [list+8], 0xabc;\n"
          "st.local.b32 [list+12], 8;\nst.local.b32 [list+16], 0x1ff;\n"
          "st.local.b32 [list+20], 0x12345;\n");
    expect("4294967280 fffffff0 0XABC 10 -1 9029", 6);
    /* 64-bit values are aligned in the list. */
    print("%d %lld %llx %ld", "st.local.b32 [list], 1;\n"
                              "mov.b64 %d4, -5000000000;\n"
                              "st.local.b64 [list+8], %d4;\n"
                              "st.local.b64 [list+16], %d4;\n"
                              "st.local.b64 [list+24], %d4;\n");
    expect("1 -5000000000 fffffffed5fa0e00 -5000000000", 4);
    print("%f %8.3f %e %g", "mov.b64 %d4, 0x3ff8000000000000;\n"
                            "st.local.b64 [list], %d4;\n"
                            "st.local.b64 [list+8], %d4;\n"
                            "st.local.b64 [list+16], %d4;\n"
                            "st.local.b64 [list+24], %d4;\n");
    expect("1.500000    1.500 1.500000e+00 1.5", 4);
    print("%s|%6s|%.2s|%c|%*d", "mov.u64 %d4, str;\n"
                                "st.local.b64 [list], %d4;\n"
                                "st.local.b64 [list+8], %d4;\n"
                                "st.local.b64 [list+16], %d4;\n"
                                "st.local.b32 [list+24], 65;\n"
                                "st.local.b32 [list+28], 4;\n"
                                "st.local.b32 [list+32], 7;\n");
    expect("text|  text|te|A|   7", 6);
    print("%y %p", "mov.b64 %d4, 0x1234;\nst.local.b64 [list], %d4;\n");
    expect("%y 0x1234", 1);
}

static void test_order(void)
{
    spt_buf text = {0}, expected = {0};
    add_head(&text);
    char *head = text.data, *entry = strstr(head, ".visible");
    text = (spt_buf){0};
    spt_buf_printf(&text, "%.*s", (int)(entry - head), head);
    add_string(&text, "fmt", "%d.%d\n");
    spt_buf_printf(&text,
                   "%sst.local.b32 [list], %%r1;\n"
                   "st.local.b32 [list+4], %%r0;\n%s",
                   entry, call_print);
    capture(&text, 40, 34);
    free(head);
    for (int cta = 0; cta < 40; cta++)
        for (int thread = 0; thread < 34; thread++)
            spt_buf_printf(&expected, "%d.%d\n", cta, thread);
    CHECK(!strcmp(printed, expected.data),
          "CTAs print by number, threads by number");
    spt_buf_free(&expected);
}

static void test_assert(void)
{
    spt_buf text = {0};
    add_head(&text);
    char *head = text.data, *entry = strstr(head, ".visible");
    text = (spt_buf){0};
    spt_buf_printf(&text, "%.*s", (int)(entry - head), head);
    add_string(&text, "what", "i < n");
    add_string(&text, "where", "file.cu");
    spt_buf_printf(&text,
                   "%ssetp.ne.u32 %%x0, %%r0, 5;\n@%%x0 bra out;\n"
                   "mov.u64 %%d2, what;\nst.param.b64 [a0], %%d2;\n"
                   "mov.u64 %%d2, where;\nst.param.b64 [a1], %%d2;\n"
                   "st.param.b32 [a2], 17;\nst.param.b64 [a3], %%d2;\n"
                   "st.param.b64 [a4], %%d2;\n"
                   "call __assertfail, (a0, a1, a2, a3, a4);\nout:\nret;\n}\n",
                   entry);
    capture(&text, 1, 32);
    free(head);
    spt_sim_report report = {0};
    CHECK(run.result == CUDA_ERROR_ASSERT, "an assertion ends the launch");
    CHECK(spt_sim_report_get(0, &report) && report.kind == SPT_SIM_ASSERT &&
              report.thread[0] == 5,
          "it is reported with its thread");
    CHECK_HAS(report.text, "i < n (file.cu:17)", "and with what it says");
}

/* Every thread takes memory, writes, reads and gives it back. */
static void test_heap(void)
{
    spt_buf text = {0};
    add_head(&text);
    spt_buf_puts(&text, "mov.b64 %d2, 64;\nst.param.b64 [a0], %d2;\n"
                        "call (r1), malloc, (a0);\nld.param.b64 %d3, [r1];\n"
                        "st.global.u32 [%d3+60], %r0;\n"
                        "ld.global.u32 %r2, [%d3+60];\n"
                        "st.global.u32 [%d1], %r2;\n"
                        "st.param.b64 [a0], %d3;\ncall free, (a0);\n"
                        "ret;\n}\n");
    capture(&text, 1, 64);
    bool right = run.result == CUDA_SUCCESS;
    for (uint32_t i = 0; i < 64; i++)
        right &= run.out[i] == i;
    CHECK(right, "malloc and free give each thread its own memory");
    add_head(&text);
    spt_buf_puts(&text, "st.param.b64 [a0], %d1;\ncall free, (a0);\nret;\n}\n");
    capture(&text, 1, 2);
    CHECK(run.result == CUDA_ERROR_LAUNCH_FAILED,
          "free of what malloc did not give ends the launch");
}

int main(void)
{
    if (!sim_run_open(&run, NULL))
        return 1;
    test_conversions();
    test_order();
    test_assert();
    test_heap();
    sim_run_close(&run);
    return check_done();
}
