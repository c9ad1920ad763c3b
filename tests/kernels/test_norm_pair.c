/*
 * A norm that is added to the residual stream with the next norm beside it
 * gives the bits of the two kernels that do one each.
 */
#include "norm.h"
#include "sim_kernels.h"

enum { WIDTH = 640, ROWS = 7, BYTES = WIDTH * ROWS * 4 };
enum { PAIR, ADD, PLAIN, KERNELS };

static spt_error err;
static spt_machine machine;

static void make_requests(spt_kernel_request *requests)
{
    for (int i = 0; i < KERNELS; i++) {
        spt_config *c = &requests[i].config;
        requests[i].template_name = "norm";
        spt_config_set_int(c, "width", WIDTH);
        spt_config_set_bool(c, "offset", true);
        spt_config_set_bool(c, "add", i != PLAIN);
        spt_config_set_string(c, "out_type", i == PLAIN ? "bf16" : "fp32");
        spt_config_set_string(c, "next_type", i == PAIR ? "bf16" : "none");
    }
}

/* in, residual, two weights: numbers of both signs and several sizes. */
static void fill(CUdeviceptr memory)
{
    static float numbers[4 * WIDTH * ROWS];
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        state = state * 1664525u + 1013904223u;
        numbers[i] = (float)(int32_t)state * 0x1p-30f;
    }
    machine.driver.cuMemcpyHtoD(memory, numbers, sizeof numbers);
}

static void launch(const spt_kernel_set *set, int kernel,
                   const spt_norm_args *args)
{
    CHECK_OK(spt_norm_launch(&machine.driver, spt_kernel_set_at(set, kernel),
                             args, ROWS, NULL, &err),
             &err, "a norm is launched");
}

static void compare(const spt_kernel_set *set)
{
    static char seen[2][2][BYTES]; /* [way][residual, next] */
    CUdeviceptr memory;
    machine.driver.cuMemAlloc(&memory, 5 * BYTES);
    spt_norm_args args = {.in = memory,
                          .weight = memory + 2 * BYTES,
                          .out = memory + BYTES,
                          .next_weight = memory + 3 * BYTES,
                          .next = memory + 4 * BYTES,
                          .in_stride = WIDTH,
                          .out_stride = WIDTH,
                          .next_stride = WIDTH,
                          .eps = 1e-6f};
    const spt_norm_args second = {.in = args.out,
                                  .weight = args.next_weight,
                                  .out = args.next,
                                  .in_stride = WIDTH,
                                  .out_stride = WIDTH,
                                  .eps = args.eps};
    for (int way = 0; way < 2; way++) {
        fill(memory);
        launch(set, way ? ADD : PAIR, &args);
        if (way)
            launch(set, PLAIN, &second);
        machine.driver.cuMemcpyDtoH(seen[way][0], args.out, BYTES);
        machine.driver.cuMemcpyDtoH(seen[way][1], args.next, BYTES / 2);
    }
    machine.driver.cuMemFree(memory);
    CHECK(memcmp(seen[0][0], seen[1][0], BYTES) == 0,
          "the residual stream has the same bits");
    CHECK(memcmp(seen[0][1], seen[1][1], BYTES / 2) == 0,
          "so has the next norm");
}

int main(void)
{
    sim_kernels sim = {0};
    spt_kernel_set *set = NULL;
    spt_kernel_request requests[KERNELS] = {{.template_name = NULL}};
    make_requests(requests);
    bool good = sim_kernels_open(&sim, &machine);
    const spt_kernel_source source = sim_kernels_source(&sim, &machine);
    if (good &&
        CHECK_OK(spt_kernel_set_open(&source, requests, KERNELS, &set, &err),
                 &err, "the kernels"))
        compare(set);
    spt_kernel_set_close(set);
    if (good)
        spt_machine_close(&machine);
    sim_kernels_close(&sim);
    return check_done();
}
